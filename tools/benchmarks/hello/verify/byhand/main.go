// Command byhand verifies and reads one notification with crypto/hmac and encoding/json.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
)

type notification struct {
	Event   string `json:"event"`
	OrderID string `json:"order_id"`
}

func main() {
	header := http.Header{"Timestamp": {os.Args[2]}, "Signature": {os.Args[3]}}
	n, err := parse(header, []byte(os.Args[4]), []byte(os.Args[1]))
	fmt.Println("hello", n, err)
}

func parse(h http.Header, body, secret []byte) (n notification, err error) {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(h.Get("Timestamp") + "\n"))
	mac.Write(body)
	if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(h.Get("Signature"))) {
		return n, errors.New("mismatch")
	}
	return n, json.Unmarshal(body, &n)
}
