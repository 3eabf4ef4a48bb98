package discover_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/discover"
)

// service is how another payment service signs, as its public documentation says. text is written down here with
// no part of package canonical, so that it is a second opinion. Where a service calls its headers otherwise, the
// sample has its timestamp and signature under the names that this one uses.
type service struct {
	name, source, how string
	secret            string
	key               func(secret string) []byte // nil for the secret's text
	encode            func(sum []byte) string
	message           func(n int) (m paymentsvc.Message, text string) // n tells messages apart
}

func hexLower(sum []byte) string  { return hex.EncodeToString(sum) }
func base64Std(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

func post(address, timestamp, body string, header ...string) paymentsvc.Message {
	m := paymentsvc.Message{
		Method: http.MethodPost, Timestamp: timestamp, Body: []byte(body),
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"captured/1"}},
	}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	m.URL, _ = url.Parse(address)
	return m
}

func received(address, timestamp, body string, header ...string) paymentsvc.Message {
	m := post(address, timestamp, body, header...)
	m.Kind = paymentsvc.KindNotification
	return m
}

func services() []service {
	stamp := func(n int) string { return fmt.Sprint(1700000000 + 977*n) }
	return []service{
		{
			name: "Stripe's webhooks", source: "https://docs.stripe.com/webhooks",
			how: "timestamp, full stop, body; in hexadecimal", secret: "whsec_9f3Zr0tQ7yKb", encode: hexLower,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"id":"evt_%d","type":"charge.succeeded"}`, n))
				return m, m.Timestamp + "." + string(m.Body)
			},
		},
		{
			name: "Paddle Billing's webhooks", source: "https://developer.paddle.com/webhooks/signature-verification",
			how: "timestamp, colon, body; in hexadecimal", secret: "pdl_ntfset_01_6h3qd3uFSi9Y", encode: hexLower,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"event_id":"evt_%d","data":{"total":"%d.00"}}`, n, n))
				return m, m.Timestamp + ":" + string(m.Body)
			},
		},
		{
			name: "Airwallex's webhooks", source: "https://www.airwallex.com/docs/developer-tools__listen-for-webhook-events",
			how: "timestamp and body run together; in hexadecimal", secret: "whsec_CEm2X-JZ1x5F", encode: hexLower,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n)+"123", fmt.Sprintf(`{"name":"payout","amount":%d.5}`, n))
				return m, m.Timestamp + string(m.Body)
			},
		},
		{
			name: "dLocal's requests", source: "https://docs.dlocal.com/docs/generate-signature",
			how: "login header, date, body, run together; in hexadecimal behind a label", secret: "k8s7Pq1mTz",
			encode: func(sum []byte) string { return "V2-HMAC-SHA256, Signature: " + hexLower(sum) },
			message: func(n int) (paymentsvc.Message, string) {
				m := post("https://api.example/payments", fmt.Sprintf("2026-07-12T13:46:%02d.629Z", n), fmt.Sprintf(`{"amount":%d,"country":"BR"}`, 120+n), "X-Login", fmt.Sprint("merchant-", n))
				return m, m.Header.Get("X-Login") + m.Timestamp + string(m.Body)
			},
		},
		{
			name: "Square's webhooks", source: "https://developer.squareup.com/docs/webhooks/step3validate",
			how: "the address notified and the body; in base64", secret: "asdf1234kjhg", encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				address := fmt.Sprintf("https://shop.example/square/%d", n)
				m := received(address, stamp(n), fmt.Sprintf(`{"merchant_id":"M%d","type":"payment.updated"}`, n))
				return m, address + string(m.Body)
			},
		},
		{
			name: "LINE Pay's requests", source: "https://developers-pay.line.me/online/pre-requisites",
			how: "secret, path, body, nonce; in base64", secret: "a917ab6a2367b536f8e5a6e2977e06f5", encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				path := fmt.Sprintf("/v3/payments/%d/confirm", n)
				m := post("https://api.example"+path, stamp(n), fmt.Sprintf(`{"amount":%d,"currency":"TWD"}`, 250+n), "X-Line-Authorization-Nonce", fmt.Sprint("nonce-", n))
				return m, "a917ab6a2367b536f8e5a6e2977e06f5" + path + string(m.Body) + fmt.Sprint("nonce-", n)
			},
		},
		{
			name: "Rapyd's requests", source: "https://docs.rapyd.net/en/request-signatures.html",
			how: "method in lower case, path, salt, timestamp, access key, secret, body; the hexadecimal text in base64", secret: "rsk_5c1e8f0a77",
			encode: func(sum []byte) string { return base64Std([]byte(hexLower(sum))) },
			message: func(n int) (paymentsvc.Message, string) {
				m := post("https://api.example/v1/payments", stamp(n), fmt.Sprintf(`{"amount":%d,"currency":"USD"}`, n), "Salt", fmt.Sprint("salt", n), "Access_key", fmt.Sprint("AK", n))
				return m, "post/v1/payments" + fmt.Sprint("salt", n) + m.Timestamp + fmt.Sprint("AK", n) + "rsk_5c1e8f0a77" + string(m.Body)
			},
		},
		{
			name: "Fiserv's requests", source: "https://docs.fiserv.dev/public/docs/message-signature",
			how: "API key, request id, timestamp, body, run together; in base64", secret: "2vKp0sVJ1x", encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				m := post("https://api.example/ipp/payments-gateway/v2/payments", stamp(n), fmt.Sprintf(`{"requestType":"Sale","total":"%d"}`, n), "Api-Key", fmt.Sprint("key", n), "Client-Request-Id", fmt.Sprint("cri-", n))
				return m, fmt.Sprint("key", n) + fmt.Sprint("cri-", n) + m.Timestamp + string(m.Body)
			},
		},
		{
			name: "Worldline Connect's requests", source: "https://apireference.connect.worldline-solutions.com/s2sapi/v1/en_US/dotnet/authentication.html",
			how: "method, content type, date and path, each with a line's end behind it; in base64", secret: "Qb1lW3", encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				date := fmt.Sprintf("Fri, 06 Jun 2026 13:39:%02d GMT", n)
				path := fmt.Sprintf("/v1/%d/payments", 9000+n)
				m := post("https://api.example"+path, date, fmt.Sprintf(`{"order":{"amount":%d}}`, n))
				return m, "POST\napplication/json\n" + date + "\n" + path + "\n"
			},
		},
		{
			name: "Coinbase Exchange's requests", source: "https://docs.cloud.coinbase.com/exchange/docs/rest-auth",
			how: "timestamp, method, path, body, run together; the secret is base64; in base64", secret: "c2VjcmV0IGtleSBvZiB0aGUgYWNjb3VudA==",
			key: func(secret string) []byte { key, _ := base64.StdEncoding.DecodeString(secret); return key }, encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				m := post(fmt.Sprintf("https://api.example/withdrawals/%d", n), stamp(n), fmt.Sprintf(`{"amount":"%d.0"}`, n))
				return m, m.Timestamp + "POST" + m.URL.Path + string(m.Body)
			},
		},
		{
			name: "webhooks after the Standard Webhooks specification", source: "https://www.standardwebhooks.com",
			how: "id, timestamp, body, with full stops between; the secret is base64 behind whsec_; in base64 behind v1,", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
			key: func(secret string) []byte {
				key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
				return key
			},
			encode: func(sum []byte) string { return "v1," + base64Std(sum) },
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"type":"invoice.paid","n":%d}`, n), "Webhook-Id", fmt.Sprint("msg_", n))
				return m, fmt.Sprint("msg_", n) + "." + m.Timestamp + "." + string(m.Body)
			},
		},
		{
			name: "QIWI's bill notifications", source: "https://developer.qiwi.com/en/bill-payments",
			how: "currency, value, bill, site and status of the body, with bars between; in hexadecimal", secret: "test-merchant-secret", encode: hexLower,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(
					`{"bill":{"siteId":"site%d","billId":"b%d","amount":{"value":"%d.00","currency":"RUB"},"status":{"value":"PAID"}},"version":"3"}`, n, 100+n, 7+n))
				return m, fmt.Sprintf("RUB|%d.00|b%d|site%d|PAID", 7+n, 100+n, n)
			},
		},
		{
			name: "eSewa's payments", source: "http://developer.esewa.com.np/pages/Epay-V2",
			how: "three fields as name=value in an order of their own, with commas between; in base64", secret: "8gBm-EnhH.1-q", encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				m := post("https://epay.example/api/epay/main/v2/form", stamp(n), fmt.Sprintf(
					`{"amount":"%[1]d","product_code":"EPAYTEST","tax_amount":"0","total_amount":"%[1]d","transaction_uuid":"11-%[1]d-13"}`, 100+n))
				return m, fmt.Sprintf("total_amount=%[1]d,transaction_uuid=11-%[1]d-13,product_code=EPAYTEST", 100+n)
			},
		},
		{
			name: "Billplz's callbacks", source: "https://www.billplz.com/api#x-signature",
			how: "all fields sorted, each name and value run together, with bars between; in hexadecimal", secret: "S-0Sq67GFD9Y5iXmi5iXMKsA", encode: hexLower,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"id":"W_%d","amount":"%d","paid":"true","state":"paid"}`, n, 200+n))
				return m, fmt.Sprintf("amount%d|idW_%d|paidtrue|statepaid", 200+n, n)
			},
		},
		{
			name: "Mercado Pago's webhooks", source: "https://www.mercadopago.com.br/developers/en/docs/your-integrations/notifications/webhooks",
			how: "id, request id and timestamp as name:value, each with a semicolon behind it; in hexadecimal", secret: "6c1a1cd6e3b0a8", encode: hexLower,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"action":"payment.updated","data":{"id":"%d"},"live_mode":true}`, 900+n), "X-Request-Id", fmt.Sprint("r-", n))
				return m, fmt.Sprintf("id:%d;request-id:r-%d;ts:%s;", 900+n, n, m.Timestamp)
			},
		},
		{
			name: "the webhooks of Adyen's balance platform", source: "https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures",
			how: "body; the secret is hexadecimal; in base64", secret: "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
			key: func(secret string) []byte { key, _ := hex.DecodeString(secret); return key }, encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"type":"balancePlatform.transfer.created","data":{"id":"%d"}}`, n))
				return m, string(m.Body)
			},
		},
		{
			name: "WeChat Pay's version 2", source: "https://pay.weixin.qq.com/wiki/doc/api/jsapi.php?chapter=4_3",
			how: "all fields that are not empty, sorted, as name=value with ampersands between, then &key= and the secret; in upper-case hexadecimal", secret: "192006250b4c09247ec02edce69f6a2d",
			encode: func(sum []byte) string { return strings.ToUpper(hexLower(sum)) },
			message: func(n int) (paymentsvc.Message, string) {
				m := post("https://api.example/pay/unifiedorder", stamp(n), fmt.Sprintf(`{"mch_id":"1%d","appid":"wx%d","attach":"","body":"test","nonce_str":"n%d"}`, n, n, n))
				return m, fmt.Sprintf("appid=wx%d&body=test&mch_id=1%d&nonce_str=n%d&key=192006250b4c09247ec02edce69f6a2d", n, n, n)
			},
		},
		{
			name: "Crypto Pay's webhooks", source: "https://help.send.tg/en/articles/10279948-crypto-pay-api",
			how: "body; the key is the SHA-256 of the secret; in hexadecimal", secret: "1234:AAzQvR7Q1e8",
			key: func(secret string) []byte { sum := sha256.Sum256([]byte(secret)); return sum[:] }, encode: hexLower,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"update_id":%d,"update_type":"invoice_paid"}`, n))
				return m, string(m.Body)
			},
		},
		{
			name: "CloudPayments' notifications", source: "https://developers.cloudpayments.ru/en/#checking-notifications",
			how: "body; in base64", secret: "ac3b5f2e0d", encode: base64Std,
			message: func(n int) (paymentsvc.Message, string) {
				m := received("https://shop.example/hooks", stamp(n), fmt.Sprintf(`{"TransactionId":%d,"Amount":10.00,"Status":"Completed"}`, n))
				return m, string(m.Body)
			},
		},
	}
}

// sample returns the nth message, signed, and the text that was signed.
func (s *service) sample(n int) (_ discover.Sample, text string) {
	m, text := s.message(n)
	key := []byte(s.secret)
	if s.key != nil {
		key = s.key(s.secret)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return discover.Sample{Name: s.name, Message: m, Signature: s.encode(mac.Sum(nil))}, text
}

var long = flag.Bool("discover.long", false, "search as Find does where the tests know the text that was signed, and compile what is found")

// findSigned searches as Find does; unless -discover.long is set, it tries only what occurs in the signed texts.
func findSigned(s discover.Sample, o discover.Options, signed ...string) (discover.Result, error) {
	if *long {
		return discover.Find(context.Background(), []discover.Sample{s}, o)
	}
	return discover.FindKnowing(context.Background(), []discover.Sample{s}, o, signed...)
}

// TestFindServices wants one sample of each service to be enough, and what is found to sign another message.
func TestFindServices(t *testing.T) {
	for i, s := range services() {
		if !*long && i%4 != 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			sample, text := s.sample(1)
			result, err := findSigned(sample, discover.Options{Secret: paymentsvc.Secret(s.secret), MaxMatches: 200}, text)
			require.NoError(t, err, "%s: %s (%s)", s.name, s.how, s.source)
			t.Logf("%d tried in %v: %s", result.Tried, result.Elapsed, result.Matches[0].Description)
			other, _ := s.sample(2)
			requireExplains(t, result, other)
			requireTexts(t, paymentsvc.Secret(s.secret), result, other.Message)
		})
	}
}

// requireExplains wants one of the matches to sign other too.
func requireExplains(t *testing.T, result discover.Result, other discover.Sample) {
	t.Helper()
	for _, m := range result.Matches {
		if got, err := m.Scheme.Signature(m.Secret, &other.Message); err == nil && got == other.Signature {
			return
		}
	}
	require.Fail(t, "no match signs a message of the same service", "%d matches, the first: %s", len(result.Matches), result.Matches[0].Description)
}
