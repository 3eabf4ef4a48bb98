package store_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

// withFile runs f on both databases, with a file called "file" that has not been read.
func withFile(t *testing.T, f func(t *testing.T, s *store.Store)) {
	testdb.Each(t, func(t *testing.T, url string) {
		s, err := store.Open(t.Context(), store.Options{URL: url})
		require.NoError(t, err)
		defer s.Close()
		file, err := s.AddPayoutFile(t.Context(), "file", "payouts.csv")
		require.NoError(t, err)
		require.Zero(t, file.ReadRows)
		f(t, s)
	})
}

func payoutRow(line int64, reference, amount string) store.PayoutRow {
	return store.PayoutRow{Line: line, Reference: reference, Amount: paymentsvc.MustParseAmount(amount), Destination: "4111111111111111"}
}

func TestABatchIsStoredWithItsJobsOrNotAtAll(t *testing.T) {
	withFile(t, func(t *testing.T, s *store.Store) {
		batch := store.PayoutBatch{
			FileID: "file", To: 4, Rows: []store.PayoutRow{payoutRow(2, "a", "1.50"), payoutRow(4, "b", "2")},
			Refused: []store.RefusedRow{{Line: 3, Reason: "no"}},
		}
		failure := errors.New("no jobs")
		err := s.ImportPayouts(t.Context(), batch, func(context.Context, *sql.Tx, ...string) error { return failure })
		require.ErrorIs(t, err, failure)
		file, err := s.PayoutFile(t.Context(), "file")
		require.NoError(t, err)
		assert.Zero(t, file.ReadRows+file.ReadLines+file.Imported+file.Refused)

		var enqueued []string
		require.NoError(t, s.ImportPayouts(t.Context(), batch, func(_ context.Context, _ *sql.Tx, userData ...string) error {
			enqueued = append(enqueued, userData...)
			return nil
		}))
		require.Len(t, enqueued, 2)
		p, err := s.Payout(t.Context(), enqueued[0])
		require.NoError(t, err)
		assert.Equal(t, "a 1.50 4111111111111111 file 2 created", strings.Join([]string{
			p.Reference, p.Amount.String(), p.Destination, p.FileID, fmt.Sprint(p.Line), string(p.State),
		}, " "))
		due, err := s.DuePayouts(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		assert.ElementsMatch(t, enqueued, due)

		file, err = s.PayoutFile(t.Context(), "file")
		require.NoError(t, err)
		assert.Equal(t, []int64{4, 3, 2, 0, 1}, []int64{file.ReadLines, file.ReadRows, file.Imported, file.Known, file.Refused})
		assert.False(t, file.Complete)
	})
}

func TestABatchThatWasStoredIsRefused(t *testing.T) {
	withFile(t, func(t *testing.T, s *store.Store) {
		first := store.PayoutBatch{FileID: "file", To: 2, Rows: []store.PayoutRow{payoutRow(2, "a", "1")}}
		last := store.PayoutBatch{FileID: "file", From: 2, To: 3, Rows: []store.PayoutRow{payoutRow(3, "b", "1")}, Complete: true}
		require.NoError(t, s.ImportPayouts(t.Context(), first, nil))
		require.ErrorIs(t, s.ImportPayouts(t.Context(), first, nil), store.ErrNotFound)
		require.NoError(t, s.ImportPayouts(t.Context(), last, nil))
		require.ErrorIs(t, s.ImportPayouts(t.Context(), last, nil), store.ErrNotFound)
		require.ErrorIs(t, s.ImportPayouts(t.Context(), store.PayoutBatch{FileID: "file", From: 3, To: 3}, nil), store.ErrNotFound, "it is complete")
		require.ErrorIs(t, s.ImportPayouts(t.Context(), store.PayoutBatch{FileID: "none"}, nil), store.ErrNotFound)
		counts, err := s.FileCounts(t.Context(), "file")
		require.NoError(t, err)
		assert.Equal(t, map[store.State]int64{store.StateCreated: 2}, counts.States)
		assert.Zero(t, counts.Attention+counts.Stuck)
		assert.EqualValues(t, 2, counts.Open())
	})
}

// imported imports rows as a whole file.
func imported(t *testing.T, s *store.Store, file string, rows ...store.PayoutRow) {
	t.Helper()
	_, err := s.AddPayoutFile(t.Context(), file, file)
	require.NoError(t, err)
	batch := store.PayoutBatch{FileID: file, To: rows[len(rows)-1].Line, Rows: rows, Complete: true}
	require.NoError(t, s.ImportPayouts(t.Context(), batch, nil))
}

func TestAFileCountsThePayoutsThatAnotherOneBrought(t *testing.T) {
	withFile(t, func(t *testing.T, s *store.Store) {
		imported(t, s, "first", payoutRow(2, "a", "1"), payoutRow(3, "b", "1"))
		imported(t, s, "second", payoutRow(2, "b", "1.0"), payoutRow(3, "c", "1"))
		due, err := s.DuePayouts(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		for _, userData := range due {
			p, err := s.Payout(t.Context(), userData)
			require.NoError(t, err)
			if p.Reference != "b" {
				continue
			}
			c, err := s.Claim(t.Context(), store.Payouts, userData, time.Minute)
			require.NoError(t, err)
			require.NoError(t, s.Stuck(t.Context(), c, "look", time.Now()))
		}
		for _, name := range []string{"first", "second"} {
			counts, err := s.FileCounts(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, map[store.State]int64{store.StateCreated: 2}, counts.States)
			assert.Equal(t, []int64{2, 1, 1, 1}, []int64{counts.Total(), counts.Open(), counts.Stuck, counts.Attention})
		}
		file, err := s.PayoutFile(t.Context(), "second")
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 1, 0}, []int64{file.Imported, file.Known, file.Refused})
	})
}

func TestAReferenceStandsInAFileOnce(t *testing.T) {
	withFile(t, func(t *testing.T, s *store.Store) {
		imported(t, s, "first", payoutRow(2, "known", "1"))
		batches := []store.PayoutBatch{
			{To: 5, Rows: []store.PayoutRow{
				payoutRow(2, "new", "1"), payoutRow(3, "new", "1"), payoutRow(4, "known", "1"), payoutRow(5, "known", "1"),
			}},
			{From: 5, To: 7, Rows: []store.PayoutRow{payoutRow(6, "known", "2"), payoutRow(7, "new", "1")}, Complete: true},
		}
		for _, b := range batches {
			b.FileID = "file"
			require.NoError(t, s.ImportPayouts(t.Context(), b, nil))
		}
		refused, err := s.RefusedRows(t.Context(), "file", 10)
		require.NoError(t, err)
		assert.Equal(t, []store.RefusedRow{
			{Line: 3, Reason: "its reference stands in line 2 already"},
			{Line: 5, Reason: "its reference stands in line 4 already"},
			{Line: 6, Reason: "its reference stands in line 4 already"},
			{Line: 7, Reason: "its reference stands in line 2 already"},
		}, refused)
		file, err := s.PayoutFile(t.Context(), "file")
		require.NoError(t, err)
		assert.Equal(t, []int64{6, 1, 1, 4}, []int64{file.ReadRows, file.Imported, file.Known, file.Refused})
	})
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	withFile(t, func(t *testing.T, s *store.Store) {
		_, err := s.Payout(t.Context(), "none")
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, err = s.PayoutFile(t.Context(), "none")
		assert.ErrorIs(t, err, store.ErrNotFound)
		refused, err := s.RefusedRows(t.Context(), "none", 10)
		require.NoError(t, err)
		assert.Empty(t, refused)
	})
}

func TestADestinationIsShownByNoFormatter(t *testing.T) {
	p := store.Payout{UserData: "u", Amount: paymentsvc.MustParseAmount("1.50"), Destination: "4111111111111111", State: store.StateCreated}
	r := payoutRow(7, "a", "1")
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		_, _ = fmt.Fprintf(&out, verb+verb+verb+"\n", p, &p, struct{ P store.Payout }{p})
		_, _ = fmt.Fprintf(&out, verb+verb+"\n", r, []store.PayoutRow{r})
	}
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("one", "payout", p, "pointer", &p)
	encoded, err := json.Marshal(p)
	require.NoError(t, err)
	out.Write(encoded)
	assert.NotContains(t, out.String(), "4111")
	assert.NotContains(t, out.String(), fmt.Sprintf("%x", "4111"))
	assert.Contains(t, out.String(), "payout u of 1.50, created")
	assert.Contains(t, out.String(), "line 7")
}
