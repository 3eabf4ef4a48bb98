// Package contract compares the SDK and its fake with testdata/openapi.yaml, the interface document as OpenAPI 3.1. It
// validates the requests of the SDK, and the responses and notifications of paymentsvctest, against the document. It
// also generates messages allowed by the document and reads them with the SDK. The paths, fields, types and names of
// the SDK must be the same as in the document.
//
// Tables in read_test.go list the intended differences, with the section of the interface document and the reason. A
// test fails if a listed difference no longer exists.
//
// If npx can start Prism, Prism serves the same document and validates the requests too.
//
// Package contract is a separate module, so that the SDK does not require the validator.
package contract
