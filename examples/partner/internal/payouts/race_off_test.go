//go:build !race

package payouts_test

const raceDetector = false
