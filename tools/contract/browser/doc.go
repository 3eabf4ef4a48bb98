// Package browser drives the pages of paymentsvc mock and examples/partner in a real Chromium. It is a separate module,
// so that the SDK does not require the browser driver.
package browser
