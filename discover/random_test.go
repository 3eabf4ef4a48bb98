package discover_test

import (
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

var (
	trials   = flag.Int("discover.trials", 2, "random compositions of TestFindRandomCompositions")
	seedFlag = flag.Uint64("discover.seed", 0, "seed of the random compositions and, with -discover.long, of the schemes; 0 takes the clock")
)

// drawn is a random composition and its description.
type drawn struct {
	part paymentsvc.CanonicalFunc
	how  string
}

// drawer composes parts at random. It knows nothing of how Find searches.
type drawer struct{ *rand.Rand }

func pick[T any](r drawer, list ...T) T { return list[r.IntN(len(list))] }

func (r drawer) timestamp() drawn { return drawn{canonical.Timestamp, "Timestamp"} }

func (r drawer) method() drawn {
	return pick(r, drawn{canonical.Method, "Method"}, drawn{canonical.Lower(canonical.Method), "Lower(Method)"})
}

func (r drawer) address() drawn {
	return pick(r,
		drawn{canonical.Path, "Path"},
		drawn{canonical.Path, "Path"},
		drawn{canonical.RequestURI, "RequestURI"},
		drawn{canonical.RequestURI, "RequestURI"},
		drawn{canonical.URL, "URL"},
		drawn{canonical.URL, "URL"},
		drawn{canonical.PathBelow("/"), "PathBelow(/)"},
		drawn{canonical.PathBelow("/partner"), "PathBelow(/partner)"},
		drawn{canonical.Join("", canonical.Host, canonical.Path), "Host+Path"},
	)
}

func (r drawer) body() drawn {
	return pick(r,
		drawn{canonical.Body, "Body"},
		drawn{canonical.Body, "Body"},
		drawn{canonical.Body, "Body"},
		drawn{canonical.BodySHA256, "BodySHA256"},
		drawn{canonical.BodySHA256, "BodySHA256"},
		drawn{canonical.BodySorted, "BodySorted"},
		drawn{canonical.BodyCompact, "BodyCompact"},
		drawn{canonical.BodySorted, "BodySorted"},
		drawn{canonical.SHA256(base64.StdEncoding, canonical.Body), "SHA256(base64)"},
		drawn{canonical.MD5(paymentsvc.Hex, canonical.Body), "MD5"},
		drawn{canonical.Encode(base64.StdEncoding, canonical.Body), "base64"},
		drawn{canonical.BodyJSON(canonical.JSONForm{Sort: true, Spaces: true}), "BodyJSON(sorted, spaces)"},
		drawn{canonical.BodyJSON(canonical.JSONForm{EscapeSlash: true}), "BodyJSON(slash)"},
		drawn{canonical.BodyJSON(canonical.JSONForm{ShortNumbers: true}), "BodyJSON(short)"},
	)
}

func (r drawer) field() drawn {
	name := pick(r, "partner_id", "amount", "user_data", "currency")
	return drawn{canonical.Field(name), "Field(" + name + ")"}
}

func (r drawer) extra(secret paymentsvc.Secret) drawn {
	return pick(r,
		r.field(),
		drawn{canonical.Header("X-Request-Id"), "Header(X-Request-Id)"},
		drawn{canonical.Header("Content-Type"), "Header(Content-Type)"},
		drawn{canonical.Secret(secret), "Secret"},
		drawn{canonical.Labelled("key=", canonical.Secret(secret)), "key=Secret"},
		drawn{canonical.Host, "Host"},
		drawn{canonical.Literal("v1"), "v1"},
		drawn{canonical.Literal("api-key-7"), "a word"},
	)
}

func (r drawer) list() drawn {
	l := canonical.FieldList{
		AsSent: r.IntN(3) == 0, Names: r.IntN(2) == 0, Between: pick(r, "&", "|", "", ":", ";", ",", "\n", "."),
		Nested: pick(r, canonical.NestedJSON, canonical.NestedOmitted, canonical.NestedFlat), OmitEmpty: r.IntN(3) == 0,
	}
	l.Unseparated = !l.Names && l.Between == ""
	if l.Names {
		l.Equals = pick(r, "=", ":", "")
		if l.Nested == canonical.NestedFlat {
			l.Path = pick(r, ".", "[]", "_")
		}
	}
	return drawn{canonical.Fields(l), fmt.Sprintf("Fields(%+v)", l)}
}

// join puts parts in a random order, with one separator.
func (r drawer) join(separator string, parts ...drawn) drawn {
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	var list []paymentsvc.CanonicalFunc
	var how []string
	for _, p := range parts {
		list, how = append(list, p.part), append(how, p.how)
	}
	if separator != "" && len(parts) > 1 && r.IntN(10) == 0 {
		list, how = append(list, canonical.Literal("")), append(how, "and behind")
	}
	return drawn{canonical.Join(separator, list...), fmt.Sprintf("%q: %s", separator, strings.Join(how, ", "))}
}

func (r drawer) separator() string {
	if r.IntN(5) > 0 {
		return pick(r, "", "\n", ".", "|", ":", "&")
	}
	return pick(r, ";", ",", " ", "-", "_", "/", "\r\n", "+", "#", "\t")
}

// core is up to four of timestamp, method, address and body.
func (r drawer) core() []drawn {
	all := []drawn{r.timestamp(), r.method(), r.address(), r.body()}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+r.IntN(4)]
}

// composition also returns what is in the composition where it is hashed or encoded as a whole, and else the same.
func (r drawer) composition(secret paymentsvc.Secret) (whole, inner drawn) {
	if r.IntN(12) > 0 {
		inner = r.plain(secret)
		return inner, inner
	}
	inner = r.join(pick(r, "", "\n", ".", "|"), r.timestamp(), drawn{canonical.Path, "Path"}, drawn{canonical.Body, "Body"})
	return pick(r,
		drawn{canonical.SHA256(paymentsvc.Hex, inner.part), "SHA256 of " + inner.how},
		drawn{canonical.Encode(base64.StdEncoding, inner.part), "base64 of " + inner.how},
		drawn{canonical.Lower(inner.part), "lower case of " + inner.how},
	), inner
}

func (r drawer) plain(secret paymentsvc.Secret) drawn {
	switch r.IntN(11) {
	case 0: // all fields of the body, alone or with the timestamp, the path or the secret
		parts := []drawn{r.list()}
		if r.IntN(2) == 0 {
			parts = append(parts, pick(r, r.timestamp(), drawn{canonical.Path, "Path"}, drawn{canonical.Labelled("key=", canonical.Secret(secret)), "key=Secret"}))
		}
		return r.join(r.separator(), parts...)
	case 1: // fields one by one
		names := []string{"partner_id", "amount", "user_data", "currency"}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		parts := []drawn{r.timestamp()}
		for _, name := range names[:1+r.IntN(4)] {
			parts = append(parts, drawn{canonical.Field(name), "Field(" + name + ")"})
		}
		return r.join(r.separator(), parts...)
	case 2: // with labels
		equals := pick(r, "=", ":")
		labelled := func(name string, part paymentsvc.CanonicalFunc) drawn {
			return drawn{canonical.Labelled(name+equals, part), name + equals}
		}
		parts := []drawn{
			labelled("timestamp", canonical.Timestamp), labelled("method", canonical.Method),
			labelled("path", canonical.Path), labelled("body", canonical.Body), labelled("amount", canonical.Field("amount")),
		}
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return r.join(pick(r, "&", ";", ",", "|", "\n", ""), parts[:2+r.IntN(2)]...)
	case 3: // with another separator in every gap
		gap := func() paymentsvc.CanonicalFunc { return canonical.Literal(pick(r, "", "\n", ".", "|", ":", "&")) }
		return drawn{canonical.Join("", canonical.Timestamp, gap(), canonical.Method, gap(), canonical.Path, gap(), canonical.Body), "different separators"}
	case 4, 5: // with one more part
		parts := r.core()
		return r.join(pick(r, "", "\n", ".", "|", ":", "&"), append(parts[:min(2, len(parts))], r.extra(secret))...)
	default:
		return r.join(r.separator(), r.core()...)
	}
}

func (r drawer) encoding() (paymentsvc.Encoding, string) {
	e := pick(r,
		drawnEncoding{paymentsvc.Hex, "Hex"}, drawnEncoding{paymentsvc.HexUpper, "HexUpper"},
		drawnEncoding{base64.StdEncoding, "base64"}, drawnEncoding{base64.RawStdEncoding, "raw base64"},
		drawnEncoding{base64.URLEncoding, "URL base64"}, drawnEncoding{base64.RawURLEncoding, "raw URL base64"},
		drawnEncoding{canonical.Chain(paymentsvc.Hex, base64.StdEncoding), "base64 of Hex"},
	)
	if r.IntN(4) == 0 {
		return canonical.Prefixed("sha256=", e.Encoding), "sha256=" + e.how
	}
	return e.Encoding, e.how
}

type drawnEncoding struct {
	paymentsvc.Encoding
	how string
}

// secret returns a secret and a form that it can be read in.
func (r drawer) secret() (paymentsvc.Secret, canonical.SecretForm) {
	key := make([]byte, 24)
	for i := range key {
		key[i] = byte(r.IntN(256))
	}
	switch r.IntN(6) {
	case 0:
		return paymentsvc.Secret(hex.EncodeToString(key)), canonical.SecretHex
	case 1:
		return paymentsvc.Secret(base64.StdEncoding.EncodeToString(key)), canonical.SecretBase64
	case 2:
		return paymentsvc.Secret("whsec_" + base64.StdEncoding.EncodeToString(key)), canonical.SecretBase64Tail
	default:
		return paymentsvc.Secret("sk-test!" + hex.EncodeToString(key)), canonical.SecretText
	}
}

// sample returns a message; the held-out one has all that tells parts apart.
func (r drawer) sample(heldOut bool) paymentsvc.Message {
	if heldOut {
		return post("https://pay.example.net:8443/partner/v1/status%20Payment?b=2&a=1", "1700009999",
			` { "user_data" : "o/2 é<" , "amount":20.00, "partner_id":18, "currency":"EUR", "note":"", "payer": { "name":"Bo", "email":"b@example.com" } }`,
			"X-Request-Id", "req-2")
	}
	address := pick(r, "https://pay.example.com/partner/v1/init_payment/card", "https://pay.example.com/partner/init_payout?lang=en")
	body := pick(r,
		`{"partner_id":17,"amount":10.50,"user_data":"order/1","currency":"USD","note":"","payer":{"name":"Ann","email":"a@example.com"}}`,
		`{ "amount": 10.50, "partner_id": 17, "currency": "USD", "user_data": "order/1", "note": null, "payer": {"email": "a@example.com", "name": "Ann"} }`,
	)
	return post(address, "1700000000", body, "X-Request-Id", "req-1")
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("to repeat: -discover.seed=%d", seed)
	return seed
}

func TestFindRandomCompositions(t *testing.T) {
	seed := seedOf(t)
	r := drawer{rand.New(rand.NewPCG(seed, 0))}
	for i := range *trials {
		secret, form := r.secret()
		c, inner := r.composition(secret)
		encoding, encodingName := r.encoding()
		scheme := paymentsvc.Scheme{Canonical: c.part, Encoding: encoding}
		key, err := form.Read(secret)
		require.NoError(t, err)
		sign := func(m paymentsvc.Message) discover.Sample {
			signature, err := scheme.Signature(key, &m)
			require.NoError(t, err)
			return discover.Sample{Message: m, Signature: signature}
		}
		how := fmt.Sprintf("composition %d of seed %d: %s, %s, secret as %s", i+1, seed, c.how, encodingName, form)

		sample := sign(r.sample(false))
		var signed []string
		for _, part := range []paymentsvc.CanonicalFunc{c.part, inner.part} {
			text, err := part(nil, &sample.Message)
			require.NoError(t, err)
			signed = append(signed, string(text))
		}
		result, err := findSigned(sample, discover.Options{Secret: secret, Words: []string{"api-key-7"}, MaxMatches: 1000}, signed...)
		require.NoError(t, err, how)
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Logf("%s: %d tried in %v", how, result.Tried, result.Elapsed.Round(time.Millisecond))
			requireExplains(t, result, sign(r.sample(true)))
			requireTexts(t, secret, result, sample.Message, r.sample(true))
		})
	}
}
