// Command byhand makes one signed call with net/http.
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

type payment struct {
	OrderID string `json:"order_id"`
}

func main() {
	p, err := initPayment(context.Background(), os.Args[1], []byte(os.Args[2]))
	fmt.Println("hello", p.OrderID, err)
}

func initPayment(ctx context.Context, base string, secret []byte) (p payment, err error) {
	body := []byte(`{"partner_id":1,"project_id":2,"amount":10.50,"user_data":"order-1"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/init_payment/card", bytes.NewReader(body)) //nolint:gosec // the user's own service
	if err != nil {
		return p, err
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "\n"))
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Timestamp", timestamp)
	req.Header.Set("Signature", hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // the user's own service
	if err != nil {
		return p, err
	}
	defer func() { _ = resp.Body.Close() }()
	return p, json.NewDecoder(resp.Body).Decode(&p)
}
