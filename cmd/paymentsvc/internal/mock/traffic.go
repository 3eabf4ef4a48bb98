package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/internal/transport"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const maxAnswer = 64 << 10 // bytes of a recorded response

type messageKey struct{}

func messageOf(ctx context.Context) *message {
	m, _ := ctx.Value(messageKey{}).(*message)
	return m
}

// fieldsOf parses the common fields of a body. It skips invalid fields.
func fieldsOf(body []byte) fields {
	var f fields
	_, _ = jsonobject.DecodeLenient(body, []jsonobject.Field{ // best effort, because the fake validates requests
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
	if !slices.Contains(endpoints(), endpoint) { // a known endpoint cannot contain a card number
		endpoint = mask.Text(endpoint)
	}
	m := e.journal.arrive(message{
		Direction: in, Method: r.Method, Target: r.RequestURI,
		Endpoint: endpoint[:min(len(endpoint), 100)], Header: r.Header,
	})
	kept := &recorder{ResponseWriter: w}
	whole := false
	defer func() { // the fake may end a connection by a panic
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
	body, _ := paymentsvctest.ReadBody(r) // the fake handles the error
	about := fieldsOf(body)
	e.journal.update(m, func(m *message) { m.Body, m.Fields = body, about })
	e.fake.ServeHTTP(kept, r.WithContext(context.WithValue(r.Context(), messageKey{}, m)))
	whole = true
}

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
		k.status, k.header = status, k.Header() // net/http adds its own headers to a copy of this map
	}
	k.ResponseWriter.WriteHeader(status)
}

func (k *recorder) Write(b []byte) (int, error) {
	k.body.Write(b[:min(len(b), max(maxAnswer-k.body.Len(), 0))])
	return k.ResponseWriter.Write(b)
}

// Unwrap returns the writer for [http.ResponseController]. Responses on hijacked connections are not recorded.
func (k *recorder) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// checked records the verdict on a request. It is Config.OnChecked.
func (e *epoch) checked(r *http.Request, v paymentsvctest.Verdict) {
	m := messageOf(r.Context())
	_, script := e.settings()
	declined := v.Rejection != nil && v.Rejection.Problem == paymentsvctest.ProblemRefused &&
		slices.ContainsFunc(script, func(s scripted) bool { return s.decline != nil && *s.decline == v.Rejection.Message })
	e.journal.update(m, func(m *message) {
		m.Rejection, m.Declined = v.Rejection, declined
		switch {
		case v.Signature != nil:
			m.Signature = &verdict{Reason: v.Signature.Reason}
		case v.Signed:
			m.Signature = &verdict{Valid: true}
		}
	})
}

// outgoing sends notifications, and records them and their responses.
type outgoing struct {
	e     *epoch
	about fields // fields of the notification before its faults, which may change or cut the body
}

type sentKey struct{}

// RoundTrip sends and records one notification.
func (t *outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	e := t.e
	body, cut := io.ReadAll(r.Body)
	m := message{
		Direction: out, Method: r.Method, Target: r.URL.String(), Endpoint: notificationEndpoint, Header: r.Header.Clone(),
		Body: body, Fields: t.about, Cut: cut != nil,
	}
	if cut == nil {
		m.Signature, m.Forged = e.judge(r, body)
		m.Fields.StatusDescription = fieldsOf(body).StatusDescription // a forgery claims another status
	}
	kept := e.journal.arrive(m)
	if sent, ok := r.Context().Value(sentKey{}).(*[]int); ok {
		*sent = append(*sent, kept.Seq)
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body)) // r.Body returns io.EOF or its error again
	resp, err := e.mock.client.RoundTrip(again)
	if err != nil {
		failed := &unsent{errorText(err), err}
		if cut != nil && errors.Is(err, cut) {
			failed.text = cut.Error()
		}
		if e.opt.HTTP2 {
			failed.text += " (sent by HTTP/2 only)"
		}
		e.journal.finish(kept, func(m *message) { m.State, m.Err = broken, failed.text })
		return nil, failed
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close() // the rest is not recorded
	e.journal.finish(kept, func(m *message) {
		m.State, m.Status, m.Answer, m.Answered = answered, resp.StatusCode, resp.Header.Clone(), answer
		if err != nil {
			m.Err = errorText(err)
		}
	})
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	return resp, nil
}

// judge returns the verdict on a notification's signature. A notification is a forgery if no secret of the partner, not
// even an old one, signed it.
func (e *epoch) judge(r *http.Request, body []byte) (v *verdict, forged bool) {
	switch signed, old := e.fake.SignedNotification(r, body); {
	case !signed:
		return &verdict{Reason: "forged on purpose: no secret of the partner has signed these bytes"}, true
	case old:
		return &verdict{Reason: "signed with the secret before the rotation, on purpose"}, false
	}
	return &verdict{Valid: true}, false
}

// post sends a body unchanged. Without a header it signs the body.
func (e *epoch) post(
	ctx context.Context, to string, project int64, at time.Time, body []byte, header http.Header,
) delivery {
	f := fieldsOf(body)
	d := delivery{Event: e.hide(f.Event), OrderID: e.hide(f.OrderID), Status: e.hide(f.StatusDescription)}
	f.ProjectID = project
	receiver := paymentsvctest.ToURL(to).Via(&outgoing{e, f})
	var err error
	d.HTTPStatus, err = e.fake.SendBody(ctx, receiver, f.ProjectID, at, body, header)
	if err != nil {
		d.Error = reasonOf(err)
	}
	d.Accepted = paymentsvctest.Delivery{HTTPStatus: d.HTTPStatus}.Accepted()
	return d
}

// unsent is the error of a notification without a response. Its text is safe to print.
type unsent struct {
	text string
	err  error
}

func (u *unsent) Error() string { return u.text }
func (u *unsent) Unwrap() error { return u.err }

// reasonOf returns the text of a delivery's error.
func reasonOf(err error) string {
	if u, ok := errors.AsType[*unsent](err); ok {
		return u.text
	}
	return err.Error() // an error of the fake
}

// errorText returns the text of an error of net/http without URLs, local addresses and parts of the response. A URL may
// contain a token, the local address changes with each message, and a response can contain data of the message.
func errorText(err error) string {
	for {
		e, ok := errors.AsType[*net.OpError](err)
		if !ok {
			return transport.ForLogs(err).Error()
		}
		err = e.Err // another OpError, if net failed to copy the body to the connection
	}
}

// ErrorFormats returns the values of Options.ErrorFormat. "fields" replies with the two error fields. "shared" uses
// HTTP 200 for errors, and adds both fields as null to successes. Of a name such as "error.code" it adds only "error".
// "status" replies to errors with the HTTP status only. "html" acts like "fields", but replies with a gateway's page if
// the HTTP status is 401.
func ErrorFormats() []string { return []string{"fields", "shared", "status", "html"} }

// format rewrites a response in the format of ErrorFormat. It is Config.Format of the fake.
func (opt *Options) format(failed bool, status int, header http.Header, body []byte) (int, []byte) {
	switch {
	case opt.ErrorFormat == "shared" && failed:
		return http.StatusOK, body
	case opt.ErrorFormat == "shared":
		fields := map[string]json.RawMessage{}
		_ = json.Unmarshal(body, &fields) // an object of the fake
		for _, name := range []string{opt.ErrorCode, opt.ErrorMessage} {
			top, _, _ := strings.Cut(name, ".")
			fields[top] = nil
		}
		body, _ = json.Marshal(fields)
	case opt.ErrorFormat == "status" && failed:
		header.Del("Content-Type")
		return status, nil
	case opt.ErrorFormat == "html" && status == http.StatusUnauthorized:
		header.Set("Content-Type", "text/html")
		return status, []byte("<html><title>401 Authorization Required</title></html>")
	}
	return status, body
}
