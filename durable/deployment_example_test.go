package durable_test

import (
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable"
)

func ExampleSchema() {
	text := strings.Join(durable.Schema(durable.PostgreSQL), ";\n") + ";\n"
	fmt.Println(strings.Contains(text, "CREATE TABLE durable_rows ("))
	// Output: true
}
