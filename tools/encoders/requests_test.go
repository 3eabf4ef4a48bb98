package encoders

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// Encoders that no logger uses write a request as it is. What they read back is the request, or they return an error.
func TestOtherEncodersKeepRequestsOrFail(t *testing.T) {
	for _, e := range encoders() {
		t.Run(e.name, func(t *testing.T) {
			want := canaryPayout()
			var got paymentsvc.PayoutRequest
			err := e.trip(want, &got)
			switch e.name {
			case "encoding/json":
				require.ErrorIs(t, err, paymentsvc.ErrSensitive)
			case "DynamoDB", "BSON, driver v1":
				require.Error(t, err, "as Amount is")
			default:
				require.NoError(t, err)
				require.Equal(t, want, got)
			}

			payment := paymentsvc.PaymentRequest{Amount: want.Amount, UserData: "u", CardData: map[string]any{"number": canary}}
			var read paymentsvc.PaymentRequest
			if err := e.trip(payment, &read); err != nil {
				t.Log(err)
				return
			}
			require.Equal(t, payment.Amount, read.Amount)
			require.Equal(t, payment.UserData, read.UserData)
			require.Contains(t, fmt.Sprint(read.CardData), canary)
		})
	}
}
