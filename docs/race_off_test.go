//go:build !race

package docs_test

const raceDetector = false
