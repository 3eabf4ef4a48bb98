// Package clients tests paymentsvc mock with clients in Node and Python, as partners write them. They use only standard
// libraries, except a shop in FastAPI.
package clients
