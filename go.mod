module github.com/paymentsvc/paymentsvc

go 1.26

require github.com/google/uuid v1.6.0

// For tests.
require (
	github.com/jarcoal/httpmock v1.4.2
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
