package docs_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func sameFields(request paymentsvc.PaymentRequest, oldBody []byte) (bool, error) {
	newBody, err := request.JSON()
	if err != nil {
		return false, err
	}
	var was, is map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(oldBody, &was), json.Unmarshal(newBody, &is)); err != nil {
		return false, err
	}
	delete(was, "partner_id") // the Client adds both
	delete(was, "project_id")
	return maps.EqualFunc(was, is, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }), nil
}

func TestTheOldBodyIsComparedWithTheNewOne(t *testing.T) {
	request := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1"}
	for old, want := range map[string]bool{
		`{"user_data":"order-1","amount":10.50,"project_id":42,"partner_id":7}`: true,
		`{"user_data":"order-1","amount":10.5,"project_id":42,"partner_id":7}`:  false,
	} {
		if same, err := sameFields(request, []byte(old)); err != nil || same != want {
			t.Errorf("%s: %t, %v", old, same, err)
		}
	}
}

func TestTheSchemeSignsAsTheOldCodeDid(t *testing.T) {
	for _, body := range []string{`{"partner_id":7,"amount":10.50}`, `{"user_data":"<é>"}`, `{}`} {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte("1700000000\n" + body)) // as in the old code
		want := hex.EncodeToString(mac.Sum(nil))
		got, err := scheme.Signature(secret, &paymentsvc.Message{
			Method: http.MethodPost, Timestamp: "1700000000", Body: []byte(body),
		})
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}

func shadow(webhook *paymentsvc.Webhook, old func(h http.Header, body []byte) bool) func(*http.Request, []byte) bool {
	return func(r *http.Request, body []byte) bool {
		accepted := old(r.Header, body)
		if err := webhook.Verify(r.Header, body); (err == nil) != accepted {
			slog.WarnContext(r.Context(), "the two verifications disagree", "old", accepted, "new", err)
		}
		return accepted
	}
}

// TestTheMigrationsStepsWork applies the page's diffs to the old client, one after the other, and runs its test after each.
func TestTheMigrationsStepsWork(t *testing.T) {
	dir, err := filepath.Abs("migrating")
	require.NoError(t, err)
	source := func(name string) (code string) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		_, code, _ = strings.Cut(string(text), "\nimport (")
		return "import (" + code
	}
	code, step := source("client.go"), filepath.Join(t.TempDir(), "client.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(dir, "client.go"): step}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(step+".json", overlay, 0o600))
	for _, b := range pages(t)["docs/migrating.md"].blocks {
		if b.lang != "diff" {
			continue
		}
		for hunk := range strings.SplitSeq(b.text, "@@\n") {
			var before, after string
			for line := range strings.Lines(hunk) {
				if line[0] != '+' {
					before += line[1:]
				}
				if line[0] != '-' {
					after += line[1:]
				}
			}
			require.Equal(t, 1, strings.Count(code, before), hunk)
			code = strings.Replace(code, before, after, 1)
		}
		starts := "1"
		if strings.Contains(code, `"init_payment/card"`) {
			starts = "2" // the old code still pays twice
		}
		require.NoError(t, os.WriteFile(step, []byte("package migrating\n\n"+code), 0o600))
		output, err := exec.Command("go", "test", "-overlay", step+".json", "./migrating", "-starts", starts).CombinedOutput()
		require.NoError(t, err, "after\n%s\n%s", b.text, output)
	}
	require.Equal(t, source("after/client.go"), code)
}
