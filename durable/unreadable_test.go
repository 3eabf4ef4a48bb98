package durable

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

func unreadable(body string) *paymentsvc.NotificationError {
	return &paymentsvc.NotificationError{Raw: []byte(body), Err: errors.New("amount: \x00 not a number")}
}

func TestUnreadableNotificationIsKeptOnceUntilItsReview(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		const body = "{\"amount\":\"4111111111111111 \xff\x00\"}"
		var log safeBuffer
		clock := &clocks{process: time.Now()}
		s := openShimmed(t, db, Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, clock)
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(body)))
		setClock(t, db, clock.Now().Add(time.Hour))
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(body)))
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(strings.Repeat("x", 100_000))))

		list, err := s.Unreadable(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		first, long := list[0], list[1]
		assert.Equal(t, body, string(first.Body))
		assert.Equal(t, `amount: \u0000 not a number`, first.Reason)
		assert.Equal(t, clock.Now().UnixMilli(), first.ReceivedAt.UnixMilli())
		assert.EqualValues(t, len(body), first.Size)
		assert.Len(t, long.Body, 64<<10)
		assert.EqualValues(t, 100_000, long.Size)
		for _, kind := range []Kind{"", KindPayment, KindPayout} {
			assert.Equal(t, Count{2, time.Hour}, counts(t, s, Filter{Kind: kind}).Unreadable)
		}
		gauges, err := s.Gauges(t.Context())
		require.NoError(t, err)
		assert.Contains(t, gauges, Gauge{
			Name: "durable.unreadable", Description: "Number of genuine notifications with an unreadable body, up to 10000.", Value: 2,
		})
		encoded, err := json.Marshal(list)
		require.NoError(t, err)
		shown := fmt.Sprintf("%v %+v %#v %s %x", list, list, first, first, first) + string(encoded) + log.String() +
			first.LogValue().String()
		assert.NotContains(t, shown, "4111")
		assert.Contains(t, shown, first.Key)

		require.ErrorIs(t, s.ReviewUnreadable(t.Context(), first.Key, ""), ErrInvalid)
		require.NoError(t, s.ReviewUnreadable(t.Context(), first.Key, "operator"))
		require.ErrorIs(t, s.ReviewUnreadable(t.Context(), first.Key, "operator"), ErrNotFound)
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(body)), "a repetition after the review")
		list, err = s.Unreadable(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, long.Key, list[0].Key)
	})
}

func TestUnreadableNotificationsHaveALimit(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		fill := func(reviewedAt string) {
			db.Exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
				INSERT INTO durable_unreadable (key, reason, body, size, received_at, reviewed_at)
				SELECT '`+reviewedAt+`-' || i, '', '', 0, i, `+reviewedAt+` FROM n`)
		}
		fill("0")
		err := s.KeepUnreadable(t.Context(), unreadable("one more"))
		require.ErrorIs(t, err, ledger.ErrFull)
		fill("2 + i")
		require.NoError(t, s.ReviewUnreadable(t.Context(), "0-1", "operator"))
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable("one more")))
		var reviewed, oldest int
		require.NoError(t, db.QueryRowContext(t.Context(),
			`SELECT COUNT(*), MIN(reviewed_at) FROM durable_unreadable WHERE reviewed_at > 0`).Scan(&reviewed, &oldest))
		assert.Equal(t, []int{1000, 4}, []int{reviewed, oldest}, "the newest are kept")
		list, err := s.Unreadable(t.Context())
		require.NoError(t, err)
		assert.Len(t, list, 50)
		assert.Equal(t, "0-2", list[0].Key)
	})
}

// The webhook of the page responds with 200 only after the commit.
func TestWebhookKeepsUnreadableNotifications(t *testing.T) {
	db := sqlite(t)
	s := openStore(t, db, Config{})
	scheme := paymentsvc.Scheme{ // a choice of this test
		Canonical: func(dst []byte, m *paymentsvc.Message) ([]byte, error) { return append(dst, m.Body...), nil },
		Encoding:  paymentsvc.Hex,
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{"a secret of the test"}, Tolerance: paymentsvc.AnyAge,
		OnUnreadable: s.KeepUnreadable,
	})
	require.NoError(t, err)
	deliver := func(body string) int {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Timestamp", "1700000000")
		mac := hmac.New(sha256.New, []byte("a secret of the test"))
		mac.Write([]byte(body))
		r.Header.Set("Signature", hex.EncodeToString(mac.Sum(nil)))
		w := httptest.NewRecorder()
		webhook.Handler(s.Notified).ServeHTTP(w, r)
		return w.Code
	}
	assert.Equal(t, http.StatusOK, deliver(`{"event":"payment.status_changed"}`))
	list, err := s.Unreadable(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, `{"event":"payment.status_changed"}`, string(list[0].Body))
	require.NoError(t, db.Close())
	assert.Equal(t, http.StatusInternalServerError, deliver(`{"event":"payout.status_changed"}`))
}
