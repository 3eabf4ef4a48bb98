package durable_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

func openWitnessed(ctx context.Context, db *sql.DB, client *paymentsvc.Client) (*durable.Store, error) {
	store, err := durable.Open(ctx, db, durable.Config{
		Service: client,
		Project: "pay 1001 2002",
		Witness: durable.FileWitness("/var/lib/payouts-witness/mark"),
	})
	return store, err
}

// tableWitness keeps the mark in another database:
//
//	CREATE TABLE witness (name TEXT PRIMARY KEY, mark BIGINT NOT NULL)
type tableWitness struct {
	db   *sql.DB
	name string // of the database with the payouts
}

func (w tableWitness) Load(ctx context.Context) (mark int64, err error) {
	err = w.db.QueryRowContext(ctx, `SELECT mark FROM witness WHERE name = $1`, w.name).Scan(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return mark, err
}

func (w tableWitness) Save(ctx context.Context, mark int64) error {
	_, err := w.db.ExecContext(ctx, `INSERT INTO witness (name, mark) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET mark = excluded.mark WHERE witness.mark < excluded.mark`, w.name, mark)
	return err
}

// objectWitness keeps the mark in an object of a store with conditional writes.
type objectWitness struct {
	client *http.Client // signs the requests, as the store requires
	url    string
}

func (w objectWitness) Load(ctx context.Context) (int64, error) {
	mark, _, err := w.read(ctx)
	return mark, err
}

func (w objectWitness) Save(ctx context.Context, mark int64) error {
	for {
		stored, tag, err := w.read(ctx)
		if err != nil || stored >= mark {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, w.url, strings.NewReader(strconv.FormatInt(mark, 10)))
		if err != nil {
			return err
		}
		r.Header.Set("If-Match", tag)
		if tag == "" {
			r.Header.Del("If-Match")
			r.Header.Set("If-None-Match", "*")
		}
		resp, err := w.client.Do(r)
		if err != nil {
			return err
		}
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusPreconditionFailed, http.StatusConflict: // another process has saved a mark
		case http.StatusOK, http.StatusCreated, http.StatusNoContent:
			return nil
		default:
			return fmt.Errorf("PUT: %s", resp.Status)
		}
	}
}

func (w objectWitness) read(ctx context.Context) (mark int64, tag string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	switch {
	case err != nil:
		return 0, "", err
	case resp.StatusCode == http.StatusNotFound:
		return 0, "", nil
	case resp.StatusCode != http.StatusOK:
		return 0, "", fmt.Errorf("GET: %s", resp.Status)
	}
	mark, err = strconv.ParseInt(string(text), 10, 64)
	return mark, resp.Header.Get("ETag"), err
}

// store is an object store with one object.
type store struct {
	mu   sync.Mutex
	text string
	tag  int
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := `"` + strconv.Itoa(s.tag) + `"`
	if r.Method == http.MethodGet {
		if s.tag == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", tag)
		_, _ = io.WriteString(w, s.text)
		return
	}
	if s.tag == 0 && r.Header.Get("If-None-Match") != "*" || s.tag > 0 && r.Header.Get("If-Match") != tag {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	text, _ := io.ReadAll(r.Body)
	s.text, s.tag = string(text), s.tag+1
}

func TestWitnessesOfThePageKeepTheHighestMark(t *testing.T) {
	_ = openWitnessed // compiled
	db := dbtest.SQLite(t)
	db.Exec(t, `CREATE TABLE witness (name TEXT PRIMARY KEY, mark BIGINT NOT NULL)`)
	server := httptest.NewServer(&store{})
	defer server.Close()
	for name, w := range map[string]durable.Witness{
		"table": tableWitness{db.DB, "payouts"}, "object": objectWitness{server.Client(), server.URL + "/mark"},
		"file": durable.FileWitness(filepath.Join(t.TempDir(), "mark")),
	} {
		t.Run(name, func(t *testing.T) {
			mark, err := w.Load(t.Context())
			require.NoError(t, err)
			assert.Zero(t, mark)
			var savers sync.WaitGroup
			for n := range 20 {
				savers.Go(func() { assert.NoError(t, w.Save(t.Context(), int64(1+n))) })
			}
			savers.Wait()
			require.NoError(t, w.Save(t.Context(), 7))
			mark, err = w.Load(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 20, mark)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if name != "file" {
				require.Error(t, w.Save(ended, 21))
			}
		})
	}
}
