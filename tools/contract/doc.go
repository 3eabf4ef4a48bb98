// Package contract compares the SDK and its fake with testdata/openapi.yaml, the interface document as OpenAPI 3.1. It
// validates the requests of the SDK and the responses of paymentsvctest against the document, and reads responses and
// notifications with one changed field. The paths, fields, types and names of the SDK must be the same as in the
// document. Package contract also compares the control API of the mock server with its openapi.json.
//
// Tables in read_test.go list the intended differences, with the section of the interface document and the reason. A
// test fails if a listed difference no longer exists.
package contract
