//go:build !race

package canonical_test

const raceDetector = false
