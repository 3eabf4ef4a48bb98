package mock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const (
	maxBody   = 1 << 20  // of a request, as in paymentsvctest
	maxAnswer = 64 << 10 // of a recorded response
)

type messageKey struct{}

func messageOf(ctx context.Context) *message {
	m, _ := ctx.Value(messageKey{}).(*message)
	return m
}

// fieldsOf parses the common fields of a body, as far as possible.
func fieldsOf(body []byte) fields {
	var f fields
	_, _ = jsonobject.DecodeLenient(body, []jsonobject.Field{ // the fake validates the body
		{Name: "project_id", Into: &f.ProjectID}, {Name: "user_data", Into: &f.UserData},
		{Name: "order_id", Into: &f.OrderID}, {Name: "event", Into: &f.Event},
		{Name: "status_description", Into: &f.StatusDescription},
	})
	return f
}

// serve passes a request to the fake, and records the request and the response.
func (s *session) serve(w http.ResponseWriter, r *http.Request) {
	e := s.current()
	endpoint := strings.TrimPrefix(r.URL.Path, s.prefix+s.opt.BasePath+"/")
	if !slices.Contains(endpoints(), endpoint) { // a known endpoint has no card number
		endpoint = mask.Text(endpoint)
	}
	m := e.journal.arrive(message{
		Direction: in, Method: r.Method, Target: r.RequestURI,
		Endpoint: endpoint[:min(len(endpoint), 100)], Header: r.Header,
	})
	kept := &recorder{ResponseWriter: w}
	whole := false
	defer func() { // also after a panic of the fake, which ends a connection
		e.journal.finish(m, func(m *message) {
			m.State, m.Status, m.Answer, m.Answered = answered, kept.status, kept.header, kept.body.Bytes()
			if !whole || kept.status == 0 {
				m.State = broken
			}
			if m.Fields.OrderID == "" && m.Status == http.StatusOK {
				m.Fields.OrderID = fieldsOf(m.Answered).OrderID
			}
		})
	}()
	body, err := readBody(r)
	e.journal.update(m, func(m *message) { m.Body, m.Fields = body, fieldsOf(body) })
	r = r.WithContext(context.WithValue(r.Context(), messageKey{}, m))
	r.Body = io.NopCloser(withError(body, err))
	e.fake.ServeHTTP(s.opt.format(kept), r)
	whole = true
}

// readBody reads a body of at most maxBody bytes, and one more byte of a longer body.
func readBody(r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), 64<<10)) + bytes.MinRead) // the declared length is only a hint
	_, err := body.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	return slices.Clip(body.Bytes()), err
}

// withError returns the bytes and then the error, if any.
func withError(read []byte, err error) io.Reader {
	if err == nil {
		return bytes.NewReader(read)
	}
	return io.MultiReader(bytes.NewReader(read), failing{err})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// recorder records a response during its transmission.
type recorder struct {
	http.ResponseWriter
	status int
	header http.Header
	body   bytes.Buffer
}

// WriteHeader records the final status.
func (k *recorder) WriteHeader(status int) {
	if k.status == 0 && status >= http.StatusOK {
		k.status, k.header = status, k.Header() // net/http sends a copy
	}
	k.ResponseWriter.WriteHeader(status)
}

func (k *recorder) Write(b []byte) (int, error) {
	k.body.Write(b[:min(len(b), max(maxAnswer-k.body.Len(), 0))])
	return k.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController]. A recorder does not see responses on hijacked connections.
func (k *recorder) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// checked is Config.OnChecked.
func (e *epoch) checked(r *http.Request, v paymentsvctest.Verdict) {
	m := messageOf(r.Context())
	if m == nil {
		return
	}
	declined := v.Rejection != nil && v.Rejection.Problem == paymentsvctest.ProblemRefused && e.declines(v.Rejection.Message)
	e.journal.update(m, func(m *message) {
		m.Rejection, m.Declined = v.Rejection, declined
		switch {
		case v.Signature != nil:
			m.Signature = &verdict{Reason: v.Signature.Reason}
		case v.Rejection == nil || !slices.Contains(unsigned(), v.Rejection.Problem):
			m.Signature = &verdict{Valid: true}
		}
	})
}

// unsigned returns the problems found before the signature check.
func unsigned() []paymentsvctest.Problem {
	return []paymentsvctest.Problem{
		paymentsvctest.ProblemEndpoint, paymentsvctest.ProblemMethod,
		paymentsvctest.ProblemContentType, paymentsvctest.ProblemTooLarge,
	}
}

// outgoing sends notifications, and records them and their responses.
type outgoing struct{ e *epoch }

type sentKey struct{}

// RoundTrip sends and records one notification.
func (t *outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	e := t.e
	body, err := io.ReadAll(r.Body)
	m := message{
		Direction: out, Method: r.Method, Target: r.URL.String(), Endpoint: notificationEndpoint, Header: r.Header.Clone(),
		Body: body, Fields: fieldsOf(body), Cut: err != nil,
	}
	if err == nil {
		m.Signature, m.Forged = e.judge(r, body)
	}
	kept := e.journal.arrive(m)
	if sent, ok := r.Context().Value(sentKey{}).(*[]int); ok {
		*sent = append(*sent, kept.Seq)
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(withError(body, err))
	resp, err := e.mock.client.RoundTrip(r)
	if err != nil {
		if e.opt.HTTP2 {
			err = fmt.Errorf("%w (sent by HTTP/2 only)", err)
		}
		e.journal.finish(kept, func(m *message) { m.State, m.Err = broken, withoutAddress(err) })
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close() // the rest is not recorded
	e.journal.finish(kept, func(m *message) {
		m.State, m.Status, m.Answer, m.Answered = answered, resp.StatusCode, resp.Header.Clone(), answer
		if err != nil {
			m.Err = withoutAddress(err)
		}
	})
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	return resp, nil
}

// judge returns the verdict on a notification's signature. A notification without a valid signature is a forgery.
func (e *epoch) judge(r *http.Request, body []byte) (v *verdict, forged bool) {
	m := &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: r.Method, URL: r.URL, Header: r.Header,
		Timestamp: r.Header.Get("Timestamp"), Body: body,
	}
	signs := func(secret paymentsvc.Secret) bool {
		made, err := e.opt.Scheme.Signature(secret, m)
		return secret != "" && err == nil && made == r.Header.Get("Signature")
	}
	for _, p := range e.opt.Projects {
		if signs(p.Secret) {
			return &verdict{Valid: true}, false
		}
		if signs(p.OldSecret) {
			return &verdict{Reason: "signed with the secret before the rotation, on purpose"}, false
		}
	}
	return &verdict{Reason: "forged on purpose: no secret of the partner has signed it"}, true
}

// post sends a body unchanged. Without a header it signs the body.
func (e *epoch) post(
	ctx context.Context, to string, project int64, at time.Time, body []byte, header http.Header,
) delivery {
	f := fieldsOf(body)
	d := delivery{Event: f.Event, OrderID: f.OrderID, Status: f.StatusDescription}
	receiver := paymentsvctest.ToURL(to).Via(&outgoing{e})
	var err error
	d.HTTPStatus, err = e.fake.SendBody(ctx, receiver, cmp.Or(project, e.opt.Projects[0].ID), at, body, header)
	if err != nil {
		d.Error = withoutAddress(err)
	}
	d.Accepted = d.HTTPStatus/100 == 2
	return d
}

// withoutAddress returns the reason of an error without addresses. The receiver's may contain a token, and the local one
// changes with each message.
func withoutAddress(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op != "dial" {
		err = e.Err
	}
	return err.Error()
}
