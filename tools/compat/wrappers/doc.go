// Package wrappers tests the SDK under the RoundTrippers of other libraries, for example for retries, traces and
// recorded responses. It is a module, because the SDK must not require these libraries.
package wrappers
