package paymentsvctest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Rejection describes a request rejected by the server itself, not by a fault.
type Rejection struct {
	// Endpoint is the path below {base_url}. For an unknown endpoint it is the whole path, or its first 256 bytes. Number
	// is the number of the request at this endpoint, from 1. All unknown endpoints count as one endpoint.
	Endpoint string
	Number   int
	// Problem is the reason.
	Problem Problem
	// Message describes the error, without values of the request, except in an error of Config.Check.
	Message string
	// ProjectID is the project_id of the request, or 0.
	ProjectID int64
	// UserData is the user_data of the request, or "". If no order has this user_data, UserData is cut to 256 bytes.
	UserData string
}

// String returns the rejection on one line.
func (r Rejection) String() string {
	return fmt.Sprintf("%s, request %d, user_data %q: %s: %s", r.Endpoint, r.Number, r.UserData, r.Problem, r.Message)
}

// reject records a rejection.
func (s *Server) reject(r *http.Request, endpoint string, n int, body []byte, why *rejection) *Rejection {
	if endpoint == "" {
		endpoint = bounded(r.URL.Path)
	}
	fields, _ := parseObject(body) // possibly incomplete
	userData := fields.text("user_data")
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.books.started[userData]; len(known) > 0 {
		userData = known[0].UserData // shares the memory of the order's text
	} else {
		userData = bounded(userData)
	}
	recorded := Rejection{endpoint, n, why.problem, why.message, fields.integer("project_id"), userData}
	s.rejections.add(recorded)
	if why.fault != nil {
		why.fault.Endpoint, why.fault.Number = endpoint, n
		s.signatures.add(*why.fault)
	}
	return &recorded
}

// Rejected returns the requests rejected by the server itself, not by a fault, the oldest first.
func (s *Server) Rejected() []Rejection {
	list, _ := s.RejectedAfter(0)
	return list
}

// bounded returns a text of at most 256 bytes, because a flood of rejected requests must not fill the memory.
func bounded(text string) string {
	const longest = 256
	if len(text) <= longest {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:longest], "")) // so that the whole text can be freed
}

// RejectedAfter returns the rejections after the first n, and the number of all rejections.
func (s *Server) RejectedAfter(n int) (list []Rejection, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejections.after(n)
}

// defaultMaxRecords is the default of Config.MaxRecords.
const defaultMaxRecords = 100_000

// record keeps the latest entries of a list. If it has more than limit entries, it drops the older half.
type record[T any] struct {
	limit   int
	entries []T
	dropped int
}

func (r *record[T]) add(entries ...T) {
	r.entries = append(r.entries, entries...)
	if len(r.entries) <= r.limit {
		return
	}
	first := len(r.entries) - (r.limit+1)/2
	r.entries, r.dropped = slices.Clone(r.entries[first:]), r.dropped+first
}

// after returns the kept entries after the first n added entries, and the number of all added entries.
func (r *record[T]) after(n int) (list []T, all int) {
	first := min(max(n-r.dropped, 0), len(r.entries))
	return slices.Clone(r.entries[first:]), r.dropped + len(r.entries)
}

// assertComplete fails the test if the server has dropped entries of a record.
func assertComplete[T any](t testing.TB, s *Server, r *record[T]) {
	t.Helper()
	s.mu.Lock()
	dropped := r.dropped
	s.mu.Unlock()
	if dropped > 0 {
		t.Errorf("paymentsvctest: %d older entries were dropped, see Config.MaxRecords", dropped)
	}
}

// AssertStarted fails the test unless the given number of orders with a user_data exists. It also fails after a
// rejected duplicate of this user_data, because correct code sends no duplicate. It does not detect duplicates accepted
// by [SameOrder].
func (s *Server) AssertStarted(t testing.TB, userData string, times int) {
	t.Helper()
	if got := s.Started(userData); got != times {
		t.Errorf("paymentsvctest: %d orders were started for user_data %q, want %d", got, userData, times)
	}
	assertComplete(t, s, &s.rejections)
	again := slices.DeleteFunc(s.Rejected(), func(r Rejection) bool {
		return r.Problem != ProblemRepeated || r.UserData != userData
	})
	if len(again) > 0 {
		t.Errorf("paymentsvctest: %d starts for user_data %q were duplicates, want 0%s", len(again), userData, lines(again))
	}
}

// AssertOrders fails the test unless the given number of orders exists, with any user_data. It detects a payment
// started again with a new user_data. [Server.AssertStarted] detects rejected duplicates.
func (s *Server) AssertOrders(t testing.TB, want int) {
	t.Helper()
	if got := len(s.Orders()); got != want {
		t.Errorf("paymentsvctest: %d orders exist, want %d", got, want)
	}
}

// assertArrived fails the test if no request arrived, because the code under test may use another address.
func (s *Server) assertArrived(t testing.TB) {
	t.Helper()
	if s.Requests(AnyEndpoint) == 0 {
		t.Errorf("paymentsvctest: there was no request to check")
	}
}

// AssertAllSigned fails the test if a request had a wrong timestamp or signature, and prints the reason. It ignores
// requests without a check of the signature, see [Verdict.Signature]. It also fails if no request arrived.
func (s *Server) AssertAllSigned(t testing.TB) {
	t.Helper()
	s.assertArrived(t)
	if faults := s.SignatureFaults(); len(faults) > 0 {
		t.Errorf("paymentsvctest: %d requests have a wrong signature%s", len(faults), lines(faults))
	}
}

// AssertNoneRejected fails the test if the server rejected a request, and prints the reasons. It ignores status calls
// with an unknown user_data, because code detects a missing start with them. It also fails if no request arrived.
func (s *Server) AssertNoneRejected(t testing.TB) {
	t.Helper()
	s.assertArrived(t)
	assertComplete(t, s, &s.rejections)
	rejected := slices.DeleteFunc(s.Rejected(), func(r Rejection) bool {
		return r.Problem == ProblemNotFound && r.UserData != ""
	})
	if len(rejected) > 0 {
		t.Errorf("paymentsvctest: %d requests were rejected%s", len(rejected), lines(rejected))
	}
}

// AssertDelivered fails the test unless the receiver has accepted each notification of [Server.Settle] and
// [Server.Refund] with a 2xx, in the first attempt or a retry. The response to a notification with [CutAt],
// [Unsigned] or [Altered] does not count. AssertDelivered also fails if there was no notification.
func (s *Server) AssertDelivered(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	missing, all := slices.Collect(maps.Keys(s.untaken)), s.posted
	s.mu.Unlock()
	slices.SortFunc(missing, func(a, b *outboxEntry) int { return a.number - b.number })
	switch {
	case all == 0:
		t.Errorf("paymentsvctest: there was no notification to deliver")
	case len(missing) > 0:
		t.Errorf("paymentsvctest: %d of %d notifications were not accepted%s", len(missing), all, lines(missing))
	}
}

// AssertForgeriesRefused fails the test if the receiver did not reject a forged, unsigned or altered notification, see
// [Delivery.Rejected]. A missing response is no rejection, because the receiver may have crashed.
// AssertForgeriesRefused ignores forgeries that were not sent as a whole, for example because of [Lost], or whose
// response the test did not await. It also fails if there was no other forgery, see [Forged].
func (s *Server) AssertForgeriesRefused(t testing.TB) {
	t.Helper()
	assertComplete(t, s, &s.deliveries)
	forgeries := slices.DeleteFunc(s.Deliveries(), func(d Delivery) bool { return !d.Forged || d.incomplete() })
	if len(forgeries) == 0 {
		t.Errorf("paymentsvctest: there was no forged notification to reject")
	}
	for _, d := range forgeries {
		if !d.Rejected() {
			t.Errorf("paymentsvctest: a forged notification was not rejected: %s", d)
		}
	}
}

// incomplete reports whether the notification was not sent as a whole, or the test did not wait for the response.
func (d Delivery) incomplete() bool {
	return slices.ContainsFunc([]error{
		errLost, errNoOldSecret, errNoReceiver, errNoProject, errCut, errNotSigned, context.Canceled,
	}, func(err error) bool { return errors.Is(d.Err, err) })
}

// Rejected reports whether the receiver responded with a 4xx other than 404, 405, 408 and 429. A wrong path, a
// redirect, a rate limit or a crash is not a rejection, because the receiver may not have checked the signature.
func (d Delivery) Rejected() bool {
	switch d.HTTPStatus {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return d.HTTPStatus/100 == 4
}

// summary lists the orders, rejections and wrong signatures in the output of a failed test.
func (s *Server) summary() string {
	orders, rejected, faults := s.Orders(), s.Rejected(), s.SignatureFaults()
	return fmt.Sprintf("paymentsvctest: %d orders%s\n%d requests rejected%s\n%d wrong signatures%s",
		len(orders), lines(orders), len(rejected), lines(rejected), len(faults), lines(faults))
}

// lines returns the first entries of a list, one per line.
func lines[T any](list []T) string {
	const most = 20
	var b strings.Builder
	for i, item := range list {
		if i == most {
			_, _ = fmt.Fprintf(&b, "\n  and %d more", len(list)-most)
			break
		}
		_, _ = fmt.Fprintf(&b, "\n  %v", item)
	}
	return b.String()
}
