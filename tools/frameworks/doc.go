// Package frameworks tests the code of docs/frameworks.md and docs/telemetry.md. Each package below it is one block of
// these pages, so each block compiles by itself.
//
// It is a module of its own, so that the frameworks stay out of the SDK's requirements.
package frameworks
