module github.com/paymentsvc/paymentsvc

go 1.26

require github.com/google/uuid v1.6.0

require (
	github.com/jarcoal/httpmock v1.4.2 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
