module github.com/paymentsvc/paymentsvc/tools/clients

go 1.26
