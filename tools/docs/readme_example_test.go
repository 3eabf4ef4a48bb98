// These files contain the Go code of the pages, inside functions that make it compile. Code without a service also runs.
package docs_test

// starts and orders are the tables of the pages; see database.
var (
	starts startsTable
	orders ordersTable
)
