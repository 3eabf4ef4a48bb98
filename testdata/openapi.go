// Package testdata contains the OpenAPI document of the payment service's interface.
package testdata

import _ "embed"

// OpenAPI is the document, in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte
