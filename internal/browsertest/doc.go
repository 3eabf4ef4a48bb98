// Package browsertest drives the pages of examples/mockserver and examples/partner in a real Chromium. It is a module of its own, so that
// what drives the browser stays out of the SDK's requirements.
package browsertest
