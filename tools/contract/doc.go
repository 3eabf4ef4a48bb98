// Package contract holds the SDK and its fake to testdata/openapi.yaml, the interface document as OpenAPI 3.1. What
// the SDK sends, and what paymentsvctest answers and notifies, is validated against it; what it allows is generated
// from it and read back; and every path, field, type and name of either side must have its place on the other.
//
// Where they differ on purpose, read_test.go has tables with the section of the interface document and the reason. An
// entry that is no longer true fails as well.
//
// Prism, which serves the same document, judges the requests as well where npx can start it.
//
// It is a module of its own, so that the validator stays out of the SDK's requirements.
package contract
