package mock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

// messageOut is a message in JSON.
type messageOut struct {
	Seq           int         `json:"seq"`
	Time          time.Time   `json:"time"`
	Direction     string      `json:"direction"`
	State         string      `json:"state"`
	Method        string      `json:"method"`
	Target        string      `json:"target"`
	Endpoint      string      `json:"endpoint"`
	ProjectID     int64       `json:"project_id"`
	UserData      string      `json:"user_data"`
	OrderID       string      `json:"order_id"`
	Headers       [][2]string `json:"headers"`
	BodyBase64    []byte      `json:"body_base64"`
	Masked        bool        `json:"masked"`
	HTTPStatus    int         `json:"http_status"`
	AnswerHeaders [][2]string `json:"answer_headers"`
	AnswerBase64  []byte      `json:"answer_base64"`
	MS            int64       `json:"ms"`
	Error         string      `json:"error"`
	Signature     *verdict    `json:"signature"`
	Rejected      *rejected   `json:"rejected"`
	Faults        []int       `json:"faults"`
}

// rejected is the reason for a rejection by the mock server.
type rejected struct {
	Problem string `json:"problem"`
	Message string `json:"message"`
}

func (e *epoch) messageOut(m message) messageOut {
	body, answer := m.Body, m.Answered
	if !e.opt.ShowBodies {
		body, answer = masked(body), masked(answer)
	}
	o := messageOut{
		Seq: m.Seq, Time: m.At.UTC(), Direction: m.Direction, State: m.State,
		Method: m.Method, Target: e.hide(mask.Query(m.Target)), Endpoint: m.Endpoint,
		ProjectID: m.Fields.ProjectID, UserData: e.hide(m.Fields.UserData), OrderID: e.hide(m.Fields.OrderID),
		Headers: e.pairs(m.Header), BodyBase64: append([]byte{}, body...),
		Masked:     !bytes.Equal(body, m.Body) || !bytes.Equal(answer, m.Answered),
		HTTPStatus: m.Status, AnswerHeaders: e.pairs(m.Answer), AnswerBase64: append([]byte{}, answer...),
		MS: m.Took.Milliseconds(), Error: m.Err, Signature: m.Signature, Faults: append([]int{}, m.Faults...),
	}
	if m.Rejection != nil {
		o.Rejected = &rejected{string(m.Rejection.Problem), m.Rejection.Message}
	}
	return o
}

// hide masks card data, personal data and destinations in a text, unless bodies are shown.
func (s *session) hide(text string) string {
	if s.opt.ShowBodies {
		return text
	}
	return mask.Text(text)
}

// pairs returns the fields of a header, sorted by name. It always hides a gateway's credentials. Unless bodies are
// shown, it also masks card data, but not in signatures and timestamps, whose digits may look like a card number.
func (e *epoch) pairs(h http.Header) [][2]string {
	list := [][2]string{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			switch name {
			case "Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization":
				value = "***"
			case "Signature", "Timestamp":
			default:
				value = e.hide(value)
			}
			list = append(list, [2]string{name, value})
		}
	}
	return list
}

const hidden = `"***"`

// shown returns the names of the document's fields that never contain card data or a destination.
func shown() []string {
	return []string{
		"partner_id", "project_id", "amount", "description", "user_data", "order_id", "status", "status_code",
		"status_description", "event", "redirect_url", "invoice_url", "payout_balance", "expected_balance", "currency",
	}
}

// masked hides each value of a body except the scalar values of the fields in [shown] and of fields whose name begins
// with "error". It masks card numbers in the result. It hides the whole body if the body is not one JSON object.
func masked(body []byte) []byte {
	if len(body) == 0 {
		return body
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return []byte(hidden)
	}
	var out []byte
	kept := 0
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return []byte(hidden)
		}
		text, _ := name.(string)
		if value[0] != '{' && value[0] != '[' && (slices.Contains(shown(), text) || strings.HasPrefix(text, "error")) {
			continue
		}
		end := int(dec.InputOffset())
		out = append(append(out, body[kept:end-len(value)]...), hidden...)
		kept = end
	}
	if _, err := dec.Token(); err != nil {
		return []byte(hidden)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return []byte(hidden)
	}
	return []byte(mask.Text(string(append(out, body[kept:]...))))
}

// limitOf returns the query's limit, 100 by default.
func limitOf(r *http.Request) (int, error) {
	text := cmp.Or(r.URL.Query().Get("limit"), "100")
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > 1000 {
		return 0, failure(http.StatusBadRequest, "type", "limit", "limit: not a number from 1 to 1000")
	}
	return limit, nil
}

// cut returns the first entries of a list, at most limit, and the number of the last returned entry, or 0 if no entries
// remain.
func cut[T any](list []T, limit int, number func(T) int) (first []T, next int) {
	if len(list) <= limit {
		return append([]T{}, list...), 0
	}
	return list[:limit], number(list[limit-1])
}

func getMessages(c *call) (int, any, error) {
	f, err := filterOf(c.r, "limit", "wait")
	limit, limitErr := limitOf(c.r)
	if err := cmp.Or(err, c.only(&f, messageFilters...), limitErr); err != nil {
		return 0, nil, err
	}
	wait, err := duration("wait", c.r.URL.Query().Get("wait"))
	if err != nil {
		return 0, nil, err
	}
	if wait > time.Minute {
		return 0, nil, invalid("wait", "wait: more than 60s")
	}
	var list []message
	var evicted int
	c.journal.waitFor(c.r.Context(), wait, &f, func() bool {
		list, evicted = c.journal.list(&f, limit+1)
		return len(list) > 0
	})
	list, next := cut(list, limit, func(m message) int { return m.Seq })
	messages := cli.Mapped(list, c.messageOut)
	return http.StatusOK, map[string]any{"messages": messages, "next": next, "evicted": evicted}, nil
}

func (c *call) message() (message, error) {
	seq, err := c.number("id")
	if err != nil {
		return message{}, err
	}
	m, evicted := c.journal.get(seq)
	switch {
	case evicted:
		return m, failure(http.StatusGone, "evicted", "id", "message %d was evicted from the journal", seq)
	case m.Seq == 0:
		return m, failure(http.StatusNotFound, "not_found", "id", "there is no such message")
	}
	return m, nil
}

func getMessage(c *call) (int, any, error) {
	m, err := c.message()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"message": c.messageOut(m)}, nil
}

// getRaw returns the request of a message as HTTP text for paymentsvc discover and verify. The body is exact. The
// header is sorted, and has no Host.
func getRaw(c *call) (int, any, error) {
	m, err := c.message()
	switch {
	case err != nil:
		return 0, nil, err
	case !c.opt.ShowBodies:
		return 0, nil, failure(http.StatusForbidden, "masked", "",
			"raw messages may hold card data: start the mock server with -show-bodies")
	}
	var text bytes.Buffer
	_, _ = fmt.Fprintf(&text, "%s %s HTTP/1.1\r\n", m.Method, m.Target)
	_ = m.Header.Write(&text) // a buffer never fails
	_, _ = fmt.Fprintf(&text, "\r\n%s", m.Body)
	return http.StatusOK, rawText(text.Bytes()), nil
}
