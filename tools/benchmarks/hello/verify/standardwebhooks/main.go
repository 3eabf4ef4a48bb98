// Command standardwebhooks verifies one notification with standard-webhooks and reads it with encoding/json.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type notification struct {
	Event   string `json:"event"`
	OrderID string `json:"order_id"`
}

func main() {
	header := http.Header{"Webhook-Id": {"1"}, "Webhook-Timestamp": {os.Args[2]}, "Webhook-Signature": {os.Args[3]}}
	n, err := parse(header, []byte(os.Args[4]), []byte(os.Args[1]))
	fmt.Println("hello", n, err)
}

func parse(h http.Header, body, secret []byte) (n notification, err error) {
	webhook, err := standardwebhooks.NewWebhookRaw(secret)
	if err != nil {
		return n, err
	}
	if err := webhook.Verify(body, h); err != nil {
		return n, err
	}
	return n, json.Unmarshal(body, &n)
}
