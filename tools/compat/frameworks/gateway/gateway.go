// Package gateway receives notifications in a function behind an API gateway.
package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/aws/aws-lambda-go/events"

	"github.com/paymentsvc/paymentsvc"
)

// Function receives the events of a gateway. Pass its methods to lambda.Start.
type Function struct {
	Webhook *paymentsvc.Webhook
	Apply   func(context.Context, *paymentsvc.Notification) error
}

// REST handles an event of a REST API. RequestContext.Path includes the stage, and Path does not.
func (f Function) REST(ctx context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	header := http.Header(e.MultiValueHeaders) // Headers has only the last value of each name
	r := &http.Request{
		Method: e.HTTPMethod, Host: e.RequestContext.DomainName, RequestURI: e.RequestContext.Path, Header: header,
	}
	status := f.handle(ctx, r, e.Body, e.IsBase64Encoded)
	return events.APIGatewayProxyResponse{StatusCode: status}, nil
}

// HTTP handles an event of an HTTP API, in format 2.0.
func (f Function) HTTP(ctx context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	header := http.Header{}
	for name, value := range e.Headers { // a comma joins several values; a signature has no comma
		header.Add(name, value)
	}
	uri := e.RawPath
	if e.RawQueryString != "" {
		uri += "?" + e.RawQueryString
	}
	c := e.RequestContext
	r := &http.Request{Method: c.HTTP.Method, Host: c.DomainName, RequestURI: uri, Header: header}
	status := f.handle(ctx, r, e.Body, e.IsBase64Encoded)
	return events.APIGatewayV2HTTPResponse{StatusCode: status}, nil
}

func (f Function) handle(ctx context.Context, r *http.Request, body string, encoded bool) int {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed
	}
	raw := []byte(body)
	if encoded { // gateways encode binary bodies
		var err error
		raw, err = base64.StdEncoding.DecodeString(body)
		if err != nil {
			return http.StatusBadRequest
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	n, err := f.Webhook.ParseRequest(r)
	switch {
	case errors.Is(err, paymentsvc.ErrMalformedNotification), errors.Is(err, paymentsvc.ErrEmptyBody):
		slog.WarnContext(ctx, "notification rejected", "error", err)
		return http.StatusBadRequest
	case err != nil:
		slog.WarnContext(ctx, "notification rejected", "error", err)
		return http.StatusUnauthorized
	}
	if err := f.Apply(ctx, n); err != nil {
		slog.ErrorContext(ctx, "notification not handled", "error", err)
		return http.StatusInternalServerError // after 200 the notification would be lost
	}
	return http.StatusOK
}
