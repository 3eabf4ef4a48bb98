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

// Function receives the events of a gateway. Its methods fit lambda.Start.
type Function struct {
	Webhook *paymentsvc.Webhook
	Apply   func(context.Context, *paymentsvc.Notification) error
}

// REST handles an event of a REST API. Its RequestContext.Path has the stage, which Path has not.
func (f Function) REST(ctx context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	header := http.Header(e.MultiValueHeaders) // Headers has only the last value of each
	status := f.handle(ctx, e.RequestContext.DomainName, e.RequestContext.Path, header, e.Body, e.IsBase64Encoded)
	return events.APIGatewayProxyResponse{StatusCode: status}, nil
}

// HTTP handles an event of an HTTP API, in format 2.0.
func (f Function) HTTP(ctx context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	header := http.Header{}
	for name, value := range e.Headers { // several values are joined by a comma, which no signature has
		header.Add(name, value)
	}
	uri := e.RawPath
	if e.RawQueryString != "" {
		uri += "?" + e.RawQueryString
	}
	status := f.handle(ctx, e.RequestContext.DomainName, uri, header, e.Body, e.IsBase64Encoded)
	return events.APIGatewayV2HTTPResponse{StatusCode: status}, nil
}

func (f Function) handle(ctx context.Context, host, uri string, header http.Header, body string, encoded bool) int {
	raw := []byte(body)
	if encoded { // a gateway encodes what it takes for binary
		var err error
		if raw, err = base64.StdEncoding.DecodeString(body); err != nil {
			return http.StatusBadRequest
		}
	}
	n, err := f.Webhook.ParseRequest(&http.Request{
		Method: http.MethodPost, Host: host, RequestURI: uri, Header: header, Body: io.NopCloser(bytes.NewReader(raw)),
	})
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
		return http.StatusInternalServerError // with 200 it would count as handled, and be lost
	}
	return http.StatusOK
}
