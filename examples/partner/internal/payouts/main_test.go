package payouts_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A queue that has ended leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
