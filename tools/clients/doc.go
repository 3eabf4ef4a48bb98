// Package clients tests paymentsvc mock with clients in other languages, as partners write them: Node and Python, with
// nothing but their standard libraries.
package clients
