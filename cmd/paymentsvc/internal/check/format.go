package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

var (
	codeName    = regexp.MustCompile(`(?i)(code|errno)[^.]*$|^error$`)
	messageName = regexp.MustCompile(`(?i)message|msg|text|detail|descr|title|hint`)
	successName = regexp.MustCompile(`(?i)(code|errno|state|result|message|msg)[^.]*$`)
	traceName   = regexp.MustCompile(`(?i)(^|_|-)(id|uuid|trace|request|time|timestamp|date|path|instance)(_|-|$)|Id$|At$`)
	shortCode   = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
)

// documented returns the response fields in the interface document: status calls have the first six, and balances have
// the last three.
func documented() []string {
	return []string{
		"partner_id", "project_id", "amount", "description", "user_data", "order_id", "status", "status_code",
		"redirect_url", "invoice_url", "payout_balance", "expected_balance", "currency",
	}
}

// Format has the field names of an error's code and message, for [paymentsvc.ErrorFields]. Success is the code of a
// success, or "" if a success has no code.
type Format struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Success string `json:"success_code"`
}

// decode returns the error in a body, or nil. The generated Go code must return the same.
func (f Format) decode(httpStatus int, body []byte) *paymentsvc.ServiceError {
	found := paymentsvc.ErrorFields(f.Code, f.Message)(httpStatus, body)
	if found != nil && f.Success != "" && found.Code == f.Success {
		return nil
	}
	return found
}

// valueAt returns the text of a field in a body, or "" for a missing or empty field. 0 and false are empty.
func valueAt(body []byte, name string) string {
	if e := paymentsvc.ErrorFields(name, "")(0, body); e != nil {
		return e.Code
	}
	return ""
}

// addFields adds the names of the strings, numbers and booleans in a JSON value, and in the first element of a list. It
// skips names that ErrorFields does not support, possible card numbers, long names, and a list without a name.
func addFields(v any, at string, names map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if name != "" && len(name) < 60 && !strings.Contains(name, ".") && mask.Text(name) == name {
				addFields(member, strings.TrimPrefix(at+"."+name, "."), names)
			}
		}
	case []any:
		if len(v) > 0 && at != "" {
			addFields(v[0], at+".0", names)
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

// form returns the form of the body: "html", "json", "text" or "empty".
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

// hidden replaces a text of the response in the output.
const hidden = "(hidden)"

// shown returns a text of the response for output. It returns hidden for a text with the signature, and for a text
// that mask.Text changes, such as a card number.
func (x *Exchange) shown(text string) string {
	signature := x.Request.Header.Get("Signature")
	if mask.Text(text) != text || signature != "" && strings.Contains(text, signature) {
		return hidden
	}
	return text
}

// isCode reports whether a text of the response can be an error's code and may appear in the output.
func (x *Exchange) isCode(text string) bool {
	return shortCode.MatchString(text) && x.shown(text) == text
}

// evidence describes the values of a field in successes and errors.
type evidence struct {
	success string // the same value in all successes; "" if they lack the field
	// covered is the number of errors with a value other than that of a success. If any probe was rejected, accepted
	// probes do not count. distinct is the number of distinct values, including values in accepted probes.
	covered, distinct   int
	code, prose, stable bool // all values pass isCode; a value has a space; each kind of probe has one value
}

// evidenceOf returns the evidence for a field. It returns false if the field cannot distinguish errors from successes.
func evidenceOf(name string, successes, failures []*Exchange) (e evidence, ok bool) {
	e = evidence{code: true, stable: true}
	for i, x := range successes {
		value := valueAt(x.Body, name)
		if i > 0 && value != e.success {
			return e, false
		}
		e.success, e.code = value, e.code && (value == "" || x.isCode(value))
	}
	anyRejected := slices.ContainsFunc(failures, func(x *Exchange) bool { return !x.Accepted })
	byKind, values := map[string]string{}, map[string]bool{}
	for _, x := range failures {
		value := valueAt(x.Body, name)
		if value == "" || value == e.success {
			continue
		}
		if !x.Accepted || !anyRejected { // a 2xx for an unknown order may be a success
			e.covered++
		}
		e.prose = e.prose || strings.Contains(value, " ")
		e.stable = e.stable && (byKind[x.Kind] == "" || byKind[x.Kind] == value)
		values[value], byKind[x.Kind] = true, value
		e.code = e.code && x.isCode(value)
	}
	e.distinct = len(values)
	possible := len(successes) > 1 && successName.MatchString(name)
	return e, e.covered > 0 && (e.success == "" || possible)
}

// chooseFormat returns the most likely fields for the code and the message. If no field can be the code, Code is "".
func chooseFormat(successes, failures []*Exchange) (f Format) {
	best, messages := 0, []string{}
	for _, name := range fieldsOf(failures...) {
		last := name[strings.LastIndexByte(name, '.')+1:]
		e, ok := evidenceOf(name, successes, failures)
		switch {
		case !ok || traceName.MatchString(last):
		case messageName.MatchString(last) || e.prose:
			messages = append(messages, name)
		case e.code && e.stable && !slices.Contains(documented(), name):
			score := e.covered<<20 | yes(codeName.MatchString(last))<<18 | e.distinct<<10 | (1023 - len(name))
			if score > best {
				best, f.Code, f.Success = score, name, e.success
			}
		}
	}
	best = 0
	for _, name := range messages {
		beside := strings.HasPrefix(name, f.Code[:strings.LastIndexByte(f.Code, '.')+1])
		score := 1 + yes(beside)<<2 | yes(messageName.MatchString(name))<<1
		if score > best {
			best, f.Message = score, name
		}
	}
	return f
}

func yes(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

const configSource = `package payments

import (
%s	"github.com/paymentsvc/paymentsvc"
)

var config = paymentsvc.Config{
	DecodeError: %s,
}
`

const notFoundSource = `
// isNotFound is the function for durable.Config.NotFound.
func isNotFound(e *paymentsvc.Error) bool {
	var reported *paymentsvc.ServiceError
	return errors.As(e, &reported) && reported.Code == %q
}
`

const successSource = `
func decodeError(httpStatus int, body []byte) *paymentsvc.ServiceError {
	found := %s(httpStatus, body)
	if found != nil && found.Code == %q {
		return nil
	}
	return found
}
`

// code sets d.Go and, if a success has no code, d.Settings. It sets neither if the format is unknown.
func (d *Findings) code() {
	if d.Format.Code == "" {
		return
	}
	f := d.Format
	decoder, imports, functions := fmt.Sprintf("paymentsvc.ErrorFields(%q, %q)", f.Code, f.Message), "", ""
	if f.Success != "" {
		decoder, functions = "decodeError", fmt.Sprintf(successSource, decoder, f.Success)
	}
	if d.NotFound != "" {
		functions += fmt.Sprintf(notFoundSource, d.NotFound)
		imports = "\t\"errors\"\n\n"
	}
	d.Go = fmt.Sprintf(configSource, imports, decoder) + functions
	if f.Success == "" { // the mock server has no code for success
		mock := map[string]string{"error_fields": f.Code + "," + f.Message}
		text, _ := json.Marshal(map[string]any{"mock": mock}) // encoding strings never fails
		d.Settings = string(text)
	}
}
