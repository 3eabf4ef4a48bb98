package paymentsvc_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/paymentsvc/paymentsvc"
)

// altered is a message of which something was changed after it was signed.
type altered struct {
	timestamp, signature string
	body                 []byte
}

// alterations change a message in one way each, and always into another message.
func alterations() map[string]func(r *rand.Rand, m altered) altered {
	bit := func(r *rand.Rand, text []byte) []byte {
		text = bytes.Clone(text)
		text[r.IntN(len(text))] ^= 1 << r.IntN(8)
		return text
	}
	other := func(r *rand.Rand, text []byte) []byte {
		text = bytes.Clone(text)
		text[r.IntN(len(text))] += byte(1 + r.IntN(255))
		return text
	}
	extended := func(r *rand.Rand, text []byte) []byte {
		return slices.Insert(bytes.Clone(text), r.IntN(len(text)+1), byte(r.IntN(256)))
	}
	truncated := func(r *rand.Rand, text []byte) []byte { return bytes.Clone(text[:r.IntN(len(text))]) }
	in := map[string]func(*rand.Rand, []byte) []byte{"bit": bit, "byte": other, "extended": extended, "truncated": truncated}

	all := map[string]func(r *rand.Rand, m altered) altered{
		"swapped headers": func(_ *rand.Rand, m altered) altered {
			m.timestamp, m.signature = m.signature, m.timestamp
			return m
		},
		"another secret": func(r *rand.Rand, m altered) altered {
			m.signature = plainSignature(paymentsvc.Secret(fmt.Sprintf("key %d", r.Uint64())), m.timestamp, string(m.body))
			return m
		},
		"a secret with one bit changed": func(r *rand.Rand, m altered) altered {
			m.signature = plainSignature(paymentsvc.Secret(bit(r, []byte(string(testSecret)))), m.timestamp, string(m.body))
			return m
		},
		"shifted timestamp": func(r *rand.Rand, m altered) altered {
			shift := 1 + r.IntN(hookNow/2)
			if r.IntN(2) == 0 {
				shift = -shift
			}
			m.timestamp = strconv.Itoa(hookNow + shift)
			return m
		},
		"the signature of another body": func(r *rand.Rand, m altered) altered {
			m.signature = plainSignature(testSecret, m.timestamp, string(other(r, m.body)))
			return m
		},
		"a signature by chance": func(r *rand.Rand, m altered) altered {
			m.signature = fmt.Sprintf("%016x%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
			return m
		},
	}
	for how, change := range in {
		all["body: "+how] = func(r *rand.Rand, m altered) altered { m.body = change(r, m.body); return m }
		all["signature: "+how] = func(r *rand.Rand, m altered) altered {
			m.signature = string(change(r, []byte(m.signature)))
			return m
		}
		all["timestamp: "+how] = func(r *rand.Rand, m altered) altered {
			m.timestamp = string(change(r, []byte(m.timestamp)))
			return m
		}
	}
	return all
}

// alteredCount is how many altered messages the next test tries: a million, or 100,000 with -short and under the race
// detector, which takes ten times as long for each.
func alteredCount() int {
	build, ok := debug.ReadBuildInfo()
	if testing.Short() || ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 100_000
	}
	return 1_000_000
}

func TestAlteredMessagesAreNeverAccepted(t *testing.T) {
	webhook := newHook(t, anyAge, withSecrets(testSecret, hookOther)) // so that nothing but the signature protects
	all := alterations()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)

	tries := alteredCount()
	var wait sync.WaitGroup
	const workers = 4
	counts := make([]map[string]int, workers)
	for worker := range workers {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			count := map[string]int{}
			counts[worker] = count
			header := http.Header{"Timestamp": {""}, "Signature": {""}}
			for i := range tries / workers {
				body := []byte(hookBody)
				if i%2 == 1 {
					body = []byte(`{"event":"refund.status_changed","order_id":"` + strconv.Itoa(i) + `","status":1,"status_description":"PENDING","status_code":0,"amount":1}`)
				}
				original := altered{hookClockShown, plainSignature(testSecret, hookClockShown, string(body)), body}
				name := names[i%len(names)]
				m := all[name](r, original)
				if m.timestamp == original.timestamp && m.signature == original.signature && bytes.Equal(m.body, original.body) {
					t.Errorf("%s changed nothing", name)
					return
				}
				header["Timestamp"][0], header["Signature"][0] = m.timestamp, m.signature
				n, err := webhook.Parse(header, m.body)
				if n != nil || !isRefusal(err) {
					t.Errorf("%s, message %d of worker %d: %v", name, i, worker, err)
					return
				}
				count[name]++
				if i%1000 == 0 { // the message itself passes, so that it is the change that fails
					header["Timestamp"][0], header["Signature"][0] = original.timestamp, original.signature
					if _, err := webhook.Parse(header, body); err != nil {
						t.Errorf("the unaltered message: %v", err)
						return
					}
				}
			}
		})
	}
	wait.Wait()
	total := 0
	for _, count := range counts {
		for _, n := range count {
			total += n
		}
	}
	assert.Equal(t, tries, total)
	t.Logf("%d altered messages in %d ways, none accepted", total, len(names))
}

// isRefusal says whether err refuses a message for its headers or signature: as no notification that was verified.
func isRefusal(err error) bool {
	return errors.Is(err, paymentsvc.ErrSignatureMismatch) || errors.Is(err, paymentsvc.ErrMalformedHeader) ||
		errors.Is(err, paymentsvc.ErrEmptyBody)
}
