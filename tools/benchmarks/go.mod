module github.com/paymentsvc/paymentsvc/tools/benchmarks

go 1.26.0

require (
	github.com/PaddleHQ/paddle-go-sdk/v4 v4.1.0
	github.com/go-resty/resty/v2 v2.17.2
	github.com/paymentsvc/paymentsvc v0.0.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	github.com/stretchr/testify v1.12.1
	github.com/stripe/stripe-go/v82 v82.5.1
	github.com/svix/svix-webhooks v1.44.0
)

tool golang.org/x/perf/cmd/benchstat

require golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/ggicci/httpin v0.20.1 // indirect
	github.com/ggicci/owl v0.8.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.59.0 // indirect
	gopkg.in/validator.v2 v2.0.1 // indirect
)

replace github.com/paymentsvc/paymentsvc => ../..
