// Command resty makes one signed call with resty.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-resty/resty/v2"
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
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "\n"))
	mac.Write(body)
	_, err = resty.New().R().
		SetContext(ctx).
		SetHeader("Content-Type", "application/json").
		SetHeader("Timestamp", timestamp).
		SetHeader("Signature", hex.EncodeToString(mac.Sum(nil))).
		SetBody(body).
		SetResult(&p).
		Post(base + "/init_payment/card")
	return p, err
}
