package durable_test

import (
	"encoding/json"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// finalState reads a status by name. The field is an example: your service may have another one, or none.
func finalState(_ durable.Kind, raw json.RawMessage) (durable.State, error) {
	var response struct {
		Status paymentsvc.StatusName `json:"status_description"`
	}
	if err := json.Unmarshal(raw, &response); err != nil {
		return "", err
	}
	switch response.Status {
	case paymentsvc.StatusSuccess:
		return durable.StateSucceeded, nil
	case paymentsvc.StatusFailure:
		return durable.StateFailed, nil
	default:
		return durable.StatePending, nil
	}
}

func ExampleConfig_finalState() {
	for _, raw := range []string{`{"status_description":"SUCCESS"}`, `{"status_description":"FAILURE"}`, `{}`} {
		state, err := finalState(durable.KindPayment, json.RawMessage(raw))
		fmt.Println(state, err)
	}
	// Output:
	// succeeded <nil>
	// failed <nil>
	// pending <nil>
}
