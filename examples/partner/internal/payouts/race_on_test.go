//go:build race

package payouts_test

// raceDetector says that everything takes several times as long.
const raceDetector = true
