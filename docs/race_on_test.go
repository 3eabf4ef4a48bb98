//go:build race

package docs_test

// raceDetector says that this test runs under the race detector, which the commands that it runs do not.
const raceDetector = true
