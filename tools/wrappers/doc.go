// Package wrappers tests the SDK under the RoundTrippers that partners wrap around a transport: one that retries, and
// one that traces.
//
// It is a module of its own, so that they stay out of the SDK's requirements.
package wrappers
