module github.com/paymentsvc/paymentsvc/tools/api

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/paymentsvc/paymentsvc v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/exp v0.0.0-20261113113407-e3970619a1a4
	golang.org/x/tools v0.52.1-0.20261106145633-d407941a339a
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/paymentsvc/paymentsvc => ../..
