// Package encoders tests what loggers show of the SDK's values, and what encoders and databases keep of an Amount and
// of a request. It is a module of its own, so that the SDK requires none of them.
package encoders
