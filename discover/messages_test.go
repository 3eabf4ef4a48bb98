package discover_test

import (
	"context"
	"flag"
	"net/http"
	"net/url"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/discover"
)

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

var long = flag.Bool(
	"discover.long", false,
	"search as Find does where the tests know the text that was signed, and compile what is found",
)

// findSigned searches as Find does; unless -discover.long is set, it tries only what occurs in the signed texts.
func findSigned(s discover.Sample, o discover.Options, signed ...string) (discover.Result, error) {
	if *long {
		return discover.Find(context.Background(), []discover.Sample{s}, o)
	}
	return discover.FindKnowing(context.Background(), []discover.Sample{s}, o, signed...)
}
