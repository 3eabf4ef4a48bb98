package check

import (
	"encoding/json"
	"fmt"
)

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

const listSource = `
func decodeError(httpStatus int, body []byte) *paymentsvc.ServiceError {
	list := paymentsvc.ErrorFields(%q, "")(httpStatus, body)
	var elements []json.RawMessage
	if list == nil || json.Unmarshal([]byte(list.Code), &elements) != nil || len(elements) == 0 {
		return nil
	}
	return %s(httpStatus, elements[0])
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

// code writes the format and the code of an unknown payment as a Go file, and as settings of the mock server.
func (d *Findings) code() {
	if d.Format.Code == "" {
		return
	}
	f := d.Format
	decoder, imports, functions := fmt.Sprintf("paymentsvc.ErrorFields(%q, %q)", f.Code, f.Message), "", ""
	mock := map[string]string{"error_fields": f.Code + "," + f.Message}
	switch {
	case f.List != "":
		functions, imports = fmt.Sprintf(listSource, f.List, decoder), "\t\"encoding/json\"\n"
		decoder, mock["error_format"] = "decodeError", "list"
	case f.Success != "":
		decoder, functions = "decodeError", fmt.Sprintf(successSource, decoder, f.Success)
	}
	if d.NotFound != "" {
		functions += fmt.Sprintf(notFoundSource, d.NotFound)
		imports += "\t\"errors\"\n"
	}
	if imports != "" {
		imports += "\n"
	}
	d.Go = fmt.Sprintf(configSource, imports, decoder) + functions
	if f.Success == "" && (f.List == "" || f.List == "errors") { // the mock server has no other format
		text, _ := json.Marshal(map[string]any{"mock": mock}) // texts cannot fail
		d.Settings = string(text)
	}
}
