//go:build race

package canonical_test

// raceDetector says that the race detector is on, under which a search takes ten times as long.
const raceDetector = true
