// Package browser drives the pages of paymentsvc mock and examples/partner in a real Chromium. It is a module of
// its own, so that the SDK does not require what drives the browser.
package browser
