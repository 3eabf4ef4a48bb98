module github.com/paymentsvc/paymentsvc/tools/docs

go 1.26.0

require (
	github.com/jarcoal/httpmock v1.4.2
	github.com/paymentsvc/paymentsvc v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/yuin/goldmark v1.8.7
)

require (
	github.com/google/uuid v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/paymentsvc/paymentsvc => ../..
