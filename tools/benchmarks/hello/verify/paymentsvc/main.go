// Command paymentsvc verifies and reads one notification with the SDK.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func main() {
	header := http.Header{"Timestamp": {os.Args[2]}, "Signature": {os.Args[3]}}
	n, err := parse(header, []byte(os.Args[4]), paymentsvc.Secret(os.Args[1]))
	fmt.Println("hello", n, err)
}

func parse(h http.Header, body []byte, secret paymentsvc.Secret) (*paymentsvc.Notification, error) {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		// The canonical string and the encoding are this program's choice: the service shows neither.
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
			Encoding:  paymentsvc.Hex,
		},
		Secrets:   []paymentsvc.Secret{secret},
		Tolerance: 5 * time.Minute,
	})
	if err != nil {
		return nil, err
	}
	return webhook.Parse(h, body)
}
