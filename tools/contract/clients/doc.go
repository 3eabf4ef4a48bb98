// Package clients tests paymentsvc mock with clients in Node and Python, as partners write them. The clients use only
// standard libraries.
package clients
