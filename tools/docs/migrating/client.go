// Package migrating is a typical handwritten client. docs/migrating.md replaces it step by step with package after.
package migrating

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Client calls the service.
type Client struct {
	address, key string
}

// New returns a client for an address and a project secret key.
func New(address, key string) (*Client, error) {
	return &Client{address: address, key: key}, nil
}

func (c *Client) sign(timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(c.key))
	mac.Write([]byte(timestamp + "\n" + string(body)))
	return hex.EncodeToString(mac.Sum(nil))
}

func (c *Client) post(ctx context.Context, endpoint string, in map[string]any) (out map[string]any, err error) {
	in["partner_id"], in["project_id"] = 7, 42
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	for range 3 { // pays up to three times if responses are lost
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address+"/"+endpoint, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Timestamp", timestamp)
		req.Header.Set("Signature", c.sign(timestamp, body))
		resp, err := http.DefaultClient.Do(req) // no timeout, and a redirect forwards the signature
		if err != nil {
			continue
		}
		received, err := io.ReadAll(resp.Body) // has no limit
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode < 300 { // the document specifies the same shape for errors
			err = json.Unmarshal(received, &out)
			return out, err
		}
	}
	return nil, errors.New("the call failed") // the payment may have succeeded
}

// Balance returns the payout balance.
func (c *Client) Balance(ctx context.Context) (string, error) {
	out, err := c.post(ctx, "get_balance", map[string]any{})
	return fmt.Sprint(out["payout_balance"]), err // 1e+06 for a million
}

// Pay starts a payment and returns the address to send the payer to.
func (c *Client) Pay(ctx context.Context, userData string, cents int64) (string, error) {
	in := map[string]any{"amount": float64(cents) / 100, "user_data": userData}
	out, err := c.post(ctx, "init_payment/card", in)
	address, _ := out["redirect_url"].(string)
	return address, err
}

// Notifications calls paid with the user_data of payments that succeed.
func (c *Client) Notifications(paid func(ctx context.Context, userData string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // has no limit
		if err != nil || r.Header.Get("Signature") != c.sign(r.Header.Get("Timestamp"), body) {
			http.Error(w, "wrong signature", http.StatusUnauthorized) // accepts any age, also a replay
			return
		}
		var n struct {
			Status   string `json:"status_description"`
			UserData string `json:"user_data"`
		}
		if err := json.Unmarshal(body, &n); err != nil || n.Status != "SUCCESS" {
			return
		}
		if err := paid(r.Context(), n.UserData); err != nil { // calls paid for a refund too
			http.Error(w, "not handled", http.StatusInternalServerError)
		}
	})
}
