// Package browsertest drives the page of examples/mockserver in a real Chromium. It is a module of its own, so that
// what drives the browser stays out of the SDK's requirements.
package browsertest
