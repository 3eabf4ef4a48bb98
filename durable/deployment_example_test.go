package durable_test

import (
	"fmt"

	"github.com/paymentsvc/paymentsvc/durable"
)

func ExampleSchema() {
	for _, statement := range durable.Schema(durable.PostgreSQL) {
		fmt.Println(statement + ";")
	}
}
