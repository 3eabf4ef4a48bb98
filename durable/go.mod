module github.com/paymentsvc/paymentsvc/durable

go 1.26.0

require github.com/paymentsvc/paymentsvc v0.0.0

require github.com/google/uuid v1.6.0 // indirect

replace github.com/paymentsvc/paymentsvc => ..
