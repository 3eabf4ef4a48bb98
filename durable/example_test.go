package durable_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// shop contains the parts of a program that the examples need.
type shop struct {
	client  *paymentsvc.Client
	scheme  paymentsvc.Scheme
	secrets []paymentsvc.Secret
	mux     *http.ServeMux
}

// payPage is the page of a pending payment.
var payPage = template.Must(template.New("").Parse(`<p>If you have paid already, wait for the result.</p>
<p>Otherwise <a href="{{.RedirectURL}}" rel="noreferrer">pay now</a>.</p>`))

func ship(ctx context.Context, tx *sql.Tx, basket string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO shipments
		SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE basket = $1)`, basket)
	return err
}

func refunded(ctx context.Context, tx *sql.Tx, basket string, _ durable.Notice) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO refunds VALUES ($1)`, basket)
	return err
}

// program returns a database, a fake of the service, and a function that ends both.
func program() (db *sql.DB, srv *paymentsvctest.Server, end func()) {
	dir, err := os.MkdirTemp("", "durable")
	must(err)
	db, err = sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	must(err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE shipments (basket TEXT); CREATE TABLE refunds (basket TEXT)`)
	must(err)
	srv, err = paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 1001,
		Projects:  []paymentsvctest.Project{{ID: 2002, Secret: "a key", Balance: paymentsvc.MustParseAmount("9000")}},
		Scheme:    scheme(),
	})
	must(err)
	must(srv.Listen("127.0.0.1:0"))
	return db, srv, func() {
		srv.Close()
		must(db.Close())
		must(os.RemoveAll(dir))
	}
}

// scheme is an example, because the interface document specifies no scheme.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// visit is a payer who pays at a checkout and comes back later.
func visit(checkout func(context.Context, *sql.DB, shop) error) {
	db, srv, end := program()
	defer end()
	client, err := paymentsvc.NewClient(srv.ClientConfig(2002))
	must(err)
	a := shop{client: client, scheme: scheme(), secrets: []paymentsvc.Secret{"a key"}, mux: http.NewServeMux()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- checkout(ctx, db, a) }()

	post := func(basket string) *httptest.ResponseRecorder {
		for {
			w := httptest.NewRecorder()
			a.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pay?basket="+basket, nil))
			if w.Code != http.StatusNotFound { // the checkout has not begun yet
				return w
			}
			select {
			case err := <-ended:
				panic(fmt.Sprint("the checkout has ended: ", err))
			case <-time.After(time.Millisecond):
			}
		}
	}
	fmt.Println("a visit:", post("basket-1").Code)
	_, err = srv.Settle(srv.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	must(err)
	w := post("basket-1")
	fmt.Println("a visit after the payment, before its notification:", w.Code, strings.Split(w.Body.String(), "\n")[0])
	srv.SetReceiver(paymentsvctest.ToHandler(a.mux, "/notifications"))
	fmt.Println("a notification:", srv.Deliver(ctx)[0].HTTPStatus)
	w = post("basket-1")
	fmt.Println("a visit:", w.Code, w.Body)
	_, err = srv.Refund(srv.Orders()[0].OrderID, paymentsvc.MustParseAmount("10.50"), paymentsvc.StatusSuccess)
	must(err)
	var shipments, refunds int
	fmt.Println("a refund:", srv.Deliver(ctx)[0].HTTPStatus)
	must(db.QueryRow(`SELECT (SELECT COUNT(*) FROM shipments), (SELECT COUNT(*) FROM refunds)`).Scan(&shipments, &refunds))
	fmt.Println("shipments:", shipments, "refunds:", refunds)
	w = post("")
	fmt.Println("without a basket:", w.Code, w.Body)
	r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("basket=basket-2&rest="+strings.Repeat("x",
		1<<20)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w = httptest.NewRecorder()
	a.mux.ServeHTTP(w, r)
	fmt.Println("a large form:", w.Code)
	cancel()
	must(<-ended)
}

// pay queues two payouts, and sends them.
func pay(salaries func(context.Context, *sql.DB, *durable.Store, []durable.NewPayout) error) {
	db, srv, end := program()
	defer end()
	client, err := paymentsvc.NewClient(srv.ClientConfig(2002))
	must(err)
	ctx := context.Background()
	must(durable.Migrate(ctx, db))
	store, err := durable.Open(ctx, db, durable.Config{Service: client, Project: srv.URL})
	must(err)
	must(salaries(ctx, db, store, []durable.NewPayout{
		{Reference: "salary-1", Amount: paymentsvc.MustParseAmount("2500.00"), Destination: "+12025550100"},
		{Reference: "salary-2", Amount: paymentsvc.MustParseAmount("1800.00"), Destination: "+12025550101"},
	}))
	done, err := store.RunBatch(ctx, durable.BatchLimit{})
	must(err)
	fmt.Println(done, "calls")
	for _, o := range srv.Orders() {
		fmt.Println(o.Kind, "of", o.Amount)
	}
}

func ExampleStore_Pay() {
	checkout := func(ctx context.Context, db *sql.DB, a shop) error {
		if err := durable.Migrate(ctx, db); err != nil {
			return err
		}
		store, err := durable.Open(ctx, db, durable.Config{
			Service: a.client,
			Project: "pay 1001 2002", // your own name, because it must never change
			OnChange: func(ctx context.Context, tx *sql.Tx, e durable.Event) error {
				switch {
				case e.Refund != nil: // it may come before the payment's success, so ship must look for it
					return refunded(ctx, tx, e.Row.Reference, *e.Refund)
				case e.Row.Kind == durable.KindPayment && e.To == durable.StateSucceeded:
					return ship(ctx, tx, e.Row.Reference) // after an error, called again later
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
		webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme: a.scheme, Secrets: a.secrets, Tolerance: paymentsvc.AnyAge, // a replay changes nothing
			OnError:      func(_ *http.Request, err error) { slog.Warn("notification rejected", "error", err) },
			OnUnreadable: store.KeepUnreadable,
		})
		if err != nil {
			return err
		}
		a.mux.Handle("/notifications", webhook.Handler(store.Notified))
		a.mux.HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 16<<10) // FormValue would write a large form to the disk
			row, err := store.Pay(r.Context(), durable.NewPayment{
				Key: r.FormValue("basket"), Type: paymentsvc.PaymentTypeCard, Amount: paymentsvc.MustParseAmount("10.50"),
			})
			switch clear := row.ReviewReason == ""; { // otherwise the row needs review
			case errors.Is(err, durable.ErrInvalid), errors.Is(err, durable.ErrConflict), errors.Is(err, durable.ErrPruned):
				http.Error(w, "This basket cannot be paid.", http.StatusBadRequest) // no basket, or it has another payment
			case err != nil:
				http.Error(w, "Please try again.", http.StatusServiceUnavailable) // with the same basket
			case clear && row.State == durable.StatePending && row.RedirectURL != "":
				_ = payPage.Execute(w, row) // no redirect, because the payer may have paid already
			case clear && row.State == durable.StateSucceeded:
				_, _ = io.WriteString(w, "Thank you.")
			case clear && (row.State == durable.StateFailed || row.State == durable.StateRejected):
				http.Error(w, "It was not paid. You can try again.", http.StatusConflict) // with a new basket key
			default:
				http.Error(w, "We are finding out.", http.StatusAccepted) // never a second payment for this basket
			}
		})
		return store.Run(ctx)
	}
	visit(checkout)
	// Output:
	// a visit: 200
	// a visit after the payment, before its notification: 200 <p>If you have paid already, wait for the result.</p>
	// a notification: 200
	// a visit: 200 Thank you.
	// a refund: 200
	// shipments: 1 refunds: 1
	// without a basket: 400 This basket cannot be paid.
	//
	// a large form: 400
}

func ExampleStore_QueuePayouts() {
	salaries := func(ctx context.Context, db *sql.DB, store *durable.Store, list []durable.NewPayout) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		// Your own rows go into the same transaction.
		queued, err := store.QueuePayouts(ctx, tx, list...)
		if err != nil {
			return err
		}
		for _, q := range queued {
			if q.Err != nil {
				return q.Err // this reference belongs to another payout
			}
		}
		return tx.Commit() // Run sends them, each once
	}
	pay(salaries)
	// Unordered output:
	// 2 calls
	// payout of 2500.00
	// payout of 1800.00
}

func ExampleSchema() {
	text := strings.Join(durable.Schema(durable.PostgreSQL), ";\n") + ";\n"
	fmt.Println(strings.Contains(text, "CREATE TABLE durable_rows ("))
	// Output: true
}

// finalState reads a status by name. The field is an example: your service may have another one, or none.
func finalState(_ durable.Kind, raw json.RawMessage) (durable.State, error) {
	var response struct {
		Status paymentsvc.StatusName `json:"status_description"`
	}
	if err := json.Unmarshal(raw, &response); err != nil {
		return "", err
	}
	switch response.Status {
	case paymentsvc.StatusSuccess:
		return durable.StateSucceeded, nil
	case paymentsvc.StatusFailure:
		return durable.StateFailed, nil
	default:
		return durable.StatePending, nil
	}
}

func ExampleConfig_finalState() {
	for _, raw := range []string{`{"status_description":"SUCCESS"}`, `{"status_description":"FAILURE"}`, `{}`} {
		state, err := finalState(durable.KindPayment, json.RawMessage(raw))
		fmt.Println(state, err)
	}
	// Output:
	// succeeded <nil>
	// failed <nil>
	// pending <nil>
}
