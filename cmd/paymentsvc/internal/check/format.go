package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

var (
	// documented has the fields of all responses in the interface document, those of status calls first.
	documented = []string{
		"partner_id", "project_id", "amount", "description", "user_data", "order_id", "status", "status_code",
		"redirect_url", "invoice_url", "payout_balance", "expected_balance", "currency",
	}
	codeName    = regexp.MustCompile(`(?i)code|errno|^error$`)
	messageName = regexp.MustCompile(`(?i)message|msg|text|detail|descr|title|hint`)
	successName = regexp.MustCompile(`(?i)code|errno|state|result|message|msg`)
	traceName   = regexp.MustCompile(`(?i)(^|_|-)(id|uuid|trace|request|time|timestamp|date|path|instance)(_|-|$)|Id$|At$`)
	shortCode   = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
)

// Format has the names of an error's code and message. A name before "[]." leads to a list, whose first element counts.
// Success, if not empty, is the code of a success.
type Format struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Success string `json:"success_code"`
}

// split returns the name of the list, "" for none, and the names without it.
func (f Format) split() (list, code, message string) {
	list, code, inList := strings.Cut(f.Code, "[].")
	if !inList {
		return "", f.Code, f.Message
	}
	return list, code, strings.TrimPrefix(f.Message, list+"[].")
}

// decode is the decoder that the Go code of the format describes.
func (f Format) decode(httpStatus int, body []byte) *paymentsvc.ServiceError {
	list, code, message := f.split()
	if list != "" {
		found := paymentsvc.ErrorFields(list, "")(httpStatus, body)
		var elements []json.RawMessage
		if found == nil || json.Unmarshal([]byte(found.Code), &elements) != nil || len(elements) == 0 {
			return nil
		}
		body = elements[0]
	}
	found := paymentsvc.ErrorFields(code, message)(httpStatus, body)
	if found != nil && f.Success != "" && found.Code == f.Success {
		return nil
	}
	return found
}

// valueAt returns a text or number of a body, "" for an empty or missing one.
func valueAt(body []byte, name string) string {
	if e := (Format{Code: name}).decode(0, body); e != nil {
		return e.Code
	}
	return ""
}

// addFields adds the names of the texts, numbers and booleans in a JSON value. ErrorFields cannot name some others.
func addFields(v any, at string, names map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if name != "" && len(name) < 60 && !strings.ContainsAny(name, ".[]") {
				addFields(member, strings.TrimPrefix(at+"."+name, "."), names)
			}
		}
	case []any:
		if len(v) > 0 && at != "" && !strings.Contains(at, "[]") {
			addFields(v[0], at+"[]", names)
		}
	case string, float64, bool:
		names[at] = true
	}
}

// fieldsOf returns the sorted names of the fields in the bodies.
func fieldsOf(exchanges ...*Exchange) []string {
	names := map[string]bool{}
	for _, x := range exchanges {
		var decoded any
		if json.Unmarshal(x.Body, &decoded) == nil {
			addFields(decoded, "", names)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// form returns "html", "json", "text" or "empty".
func (x *Exchange) form() string {
	body := bytes.TrimSpace(x.Body)
	switch {
	case strings.Contains(x.Header.Get("Content-Type"), "html"), bytes.HasPrefix(body, []byte("<")):
		return "html"
	case len(body) == 0:
		return "empty"
	case json.Valid(body) && (body[0] == '{' || body[0] == '['):
		return "json"
	}
	return "text"
}

// candidate is a field that occurs in errors and not in successes.
type candidate struct {
	name, success               string
	covered                     int             // errors with the field
	values                      map[string]bool // distinct values
	code, prose, stable, copies bool            // short texts; with spaces; equal for equal probes; copies of the HTTP status
}

func (c *candidate) named(pattern *regexp.Regexp) bool { return pattern.MatchString(last(c.name)) }

func last(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// newCandidate returns nil for a field that successes also have. A field with one value in all successes, such as "OK", may
// still have other values in errors.
func newCandidate(name string, successes, failures []*Exchange) *candidate {
	c := &candidate{name: name, values: map[string]bool{}, code: true, stable: true, copies: true}
	for i, x := range successes {
		value := valueAt(x.Body, name)
		if i > 0 && value != c.success {
			return nil
		}
		c.success = value
	}
	if c.success != "" && (len(successes) < 2 || strings.Contains(name, "[]") || !c.named(successName)) {
		return nil
	}
	anyRejected := slices.ContainsFunc(failures, func(x *Exchange) bool { return !x.Accepted })
	byKind := map[string]string{}
	for _, x := range failures {
		value := valueAt(x.Body, name)
		if value == "" || value == c.success {
			continue
		}
		if !x.Accepted || !anyRejected { // a 2xx for an unknown order need not be an error
			c.covered++
		}
		c.stable = c.stable && (byKind[x.Kind] == "" || byKind[x.Kind] == value)
		c.values[value], byKind[x.Kind] = true, value
		c.prose = c.prose || strings.Contains(value, " ")
		c.code = c.code && shortCode.MatchString(value) && value != x.order && value != x.Request.Header.Get("Signature")
		c.copies = c.copies && (value == strconv.Itoa(x.StatusCode) || value == http.StatusText(x.StatusCode))
	}
	return c
}

// chooseFormat returns the best pair of fields, and false without a field for the code.
func chooseFormat(successes, failures []*Exchange) (f Format, found bool) {
	var codes, messages []*candidate
	for _, name := range fieldsOf(failures...) {
		c := newCandidate(name, successes, failures)
		switch {
		case c == nil || c.covered == 0 || strings.HasSuffix(name, "[]") || c.named(traceName):
		case c.named(messageName) || c.prose:
			messages = append(messages, c)
		case c.code && c.stable && !slices.Contains(documented, name):
			codes = append(codes, c)
		}
	}
	if len(codes) == 0 {
		return f, false
	}
	code := slices.MaxFunc(codes, func(a, b *candidate) int {
		return cmp.Or(a.covered-b.covered, yes(!a.copies)-yes(!b.copies), yes(a.named(codeName))-yes(b.named(codeName)),
			len(a.values)-len(b.values), len(b.name)-len(a.name))
	})
	f.Code, f.Success = code.name, code.success
	parent := strings.TrimSuffix(f.Code, last(f.Code))
	messages = slices.DeleteFunc(messages, func(m *candidate) bool {
		return strings.Contains(parent+m.name, "[]") && !strings.HasPrefix(m.name, parent)
	})
	if len(messages) > 0 {
		f.Message = slices.MaxFunc(messages, func(a, b *candidate) int {
			return cmp.Or(yes(strings.HasPrefix(a.name, parent))-yes(strings.HasPrefix(b.name, parent)),
				yes(a.named(messageName))-yes(b.named(messageName)), a.covered-b.covered)
		}).name
	}
	return f, true
}

func yes(condition bool) int {
	if condition {
		return 1
	}
	return 0
}
