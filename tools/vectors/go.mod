module github.com/paymentsvc/paymentsvc/tools/vectors

go 1.26.0
