package check

import (
	"encoding/json"
	"fmt"
)

const configSource = `package payments

import (
%s
	"github.com/paymentsvc/paymentsvc"
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
	list, code, message := d.Format.split()
	decoder, imports, functions := fmt.Sprintf("paymentsvc.ErrorFields(%q, %q)", code, message), "", ""
	mock := map[string]string{"error_fields": code + "," + message}
	switch {
	case list != "":
		functions, imports = fmt.Sprintf(listSource, list, decoder), "\t\"encoding/json\"\n"
		decoder, mock["error_format"] = "decodeError", "list"
	case d.Format.Success != "":
		functions = fmt.Sprintf(successSource, decoder, d.Format.Success)
		decoder, mock["error_format"] = "decodeError", "shared"
	}
	if d.NotFound != "" {
		functions += fmt.Sprintf(notFoundSource, d.NotFound)
		imports += "\t\"errors\"\n"
	}
	d.Go = fmt.Sprintf(configSource, imports, decoder) + functions
	text, _ := json.Marshal(map[string]any{"mock": mock}) // texts cannot fail
	d.Settings = string(text)
}
