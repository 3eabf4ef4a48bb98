package timestamp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/paymentsvc/paymentsvc/internal/timestamp"
)

func TestDistanceDoesNotOverflow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1764310000, 0)
	assert.Equal(t, "1h0m1s", timestamp.Distance(now, now.Add(time.Hour+time.Second)))
	assert.Equal(t, "-1h0m0s", timestamp.Distance(now, now.Add(-time.Hour)))
	assert.Equal(t, "more than 292 years", timestamp.Distance(now, time.Unix(253402300799, 0)))
	assert.Equal(t, "more than 292 years", timestamp.Distance(time.Unix(253402300799, 0), now))
}
