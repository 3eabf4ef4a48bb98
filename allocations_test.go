//go:build !race

// The race detector makes sync.Pool forget at random, so that under it there is nothing to count.

package paymentsvc_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// allocations counts the allocations of f once the pools are filled.
func allocations(f func()) int { return int(testing.AllocsPerRun(500, f)) }

func encodings() map[string]paymentsvc.Encoding {
	return map[string]paymentsvc.Encoding{
		"Hex": paymentsvc.Hex, "HexUpper": paymentsvc.HexUpper, "base64": base64.StdEncoding,
	}
}

func TestSignAllocatesTheTwoHeadersOnly(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+testBase, nil)
	require.NoError(t, err)
	body := []byte(operations()[0].sent)
	for name, encoding := range encodings() {
		scheme := testScheme()
		scheme.Encoding = encoding
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: testSecret})
		require.NoError(t, err)
		assert.LessOrEqual(t, allocations(func() { err = signer.Sign(req, body) }), 4, "%s: a text and a slice each", name)
		require.NoError(t, err)
	}
}

func TestVerifyAllocatesNothing(t *testing.T) {
	for name, encoding := range encodings() {
		scheme := notificationScheme()
		scheme.Encoding = encoding
		webhook := newWebhook(t, scheme)
		for _, size := range notificationSizes {
			_, body := signedNotification(t, size)
			header := signedHeader(t, scheme, body)
			var err error
			assert.Zero(t, allocations(func() { err = webhook.Verify(header, body) }), "%s, %d bytes", name, size)
			require.NoError(t, err)
		}
	}
}

func TestParseAllocatesWhatItGivesAndNothingElse(t *testing.T) {
	webhook := newWebhook(t, notificationScheme())
	for _, size := range notificationSizes {
		header, body := signedNotification(t, size)
		var err error
		sdk := allocations(func() { _, err = webhook.Parse(header, body) })
		require.NoError(t, err)
		assert.LessOrEqual(t, sdk, 7, "%d bytes: the notification, its body, its four texts and the amount", size)
	}
}
