package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func signCommand() cli.Command {
	return cli.Command{
		Name:    "sign",
		Summary: "Sign a body and print its two headers, a command, code or the HTTP text",
		Usage:   "[FILE|-]",
		MaxArgs: 1,
		Flags: append(cli.Shared("scheme", "scheme-file", "secret-file"),
			cli.Flag{Name: "url", Value: "URL", Usage: "address of the request, for -as and for schemes that sign it"},
			cli.Flag{Name: "method", Value: "METHOD", Default: http.MethodPost, Usage: "HTTP method"},
			cli.Flag{Name: "kind", Value: "KIND", Default: "request", Usage: "request or notification"},
			cli.Flag{
				Name: "as", Value: "FORM", Default: "headers", LineOnly: true,
				Values: []string{"headers", "curl", "fetch", "python", "php", "http"},
				Usage:  "headers, curl (for a POSIX shell), fetch, python, php or http",
			},
			cli.Flag{Name: "show", Kind: cli.Bool, Usage: "print the text that is signed, with placeholders for secret and card data", LineOnly: true},
			cli.Flag{Name: "trim", Kind: cli.Bool, Usage: "cut one line end off the end of the body", LineOnly: true},
			cli.Flag{Name: "timestamp", Value: "SECONDS", Kind: cli.Int, Usage: "Unix time to sign (default now)", LineOnly: true},
		),
		Notes: "Without FILE the body is read from standard input. The command of -as curl names FILE, and holds the body\n" +
			"itself with -trim or without FILE.",
		Examples: []string{
			"paymentsvc sign -url https://pay.example.com/get_balance body.json",
			"paymentsvc sign -url http://127.0.0.1:8080/get_balance -as curl -trim body.json | sh",
		},
		Run: runSign,
	}
}

func runSign(_ context.Context, c *cli.Call) error {
	file := "-"
	if len(c.Args) > 0 {
		file = c.Args[0]
	}
	key, err := c.Key()
	if err != nil {
		return err
	}
	m, err := messageToSign(c, file)
	if err != nil {
		return err
	}
	signature, err := signMessage(key, m)
	if err != nil {
		return err
	}
	return printSigned(c, key, m, signature, file)
}

func messageToSign(c *cli.Call, file string) (*paymentsvc.Message, error) {
	kind, err := kindOf(c, nil)
	if err != nil {
		return nil, err
	}
	address, err := webAddress(c, "url")
	if err != nil {
		return nil, err
	}
	if address != nil && address.Path == "" {
		address.Path = "/" // as every client sends it
	}
	method := strings.ToUpper(c.Text("method"))
	if strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || method == "" {
		return nil, c.Fail("method", "want letters only, such as POST")
	}
	body, err := c.ReadInput(file, file)
	if err != nil {
		return nil, err
	}
	if rest, ends := bytes.CutSuffix(body, []byte("\n")); ends {
		if c.Bool("trim") {
			body = bytes.TrimSuffix(rest, []byte("\r"))
		} else {
			c.Note("%s ends with a line end, which is signed; -trim leaves it out", file)
		}
	}
	if len(body) == 0 {
		c.Note("the body is empty")
	} else if !json.Valid(body) {
		c.Note("the body is not JSON")
	}
	seconds := c.Now().Unix()
	if c.Set("timestamp") {
		seconds = c.Int("timestamp")
	}
	return newMessage(kind, method, address, seconds, body), nil
}

func newMessage(kind paymentsvc.MessageKind, method string, address *url.URL, seconds int64, body []byte) *paymentsvc.Message {
	timestamp := strconv.FormatInt(seconds, 10)
	return &paymentsvc.Message{
		Kind: kind, Method: method, URL: address, Timestamp: timestamp, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Timestamp": {timestamp}},
	}
}

// signMessage sets the signature header of m.
func signMessage(key cli.Key, m *paymentsvc.Message) (string, error) {
	signature, err := key.Scheme.Signature(key.Secret, m)
	if err != nil {
		return "", cannotSign(key, m, err)
	}
	if strings.ContainsFunc(signature, unicode.IsControl) {
		return "", cli.Usagef("the scheme makes a signature with a control character, which no header can have")
	}
	m.Header.Set("Signature", signature)
	return signature, nil
}

// cannotSign returns the error of a scheme. If only the address is missing, it adds advice.
func cannotSign(key cli.Key, m *paymentsvc.Message, err error) error {
	hint, addressed := "", *m
	if addressed.URL = (&url.URL{Scheme: "https", Host: "pay.example.com", Path: "/"}); m.URL == nil {
		if _, failed := key.Scheme.Signature(key.Secret, &addressed); failed == nil {
			hint = ": give -url"
		}
	}
	return cli.Usagef("the scheme cannot sign this: %s%s", key.Mask(err.Error()), hint)
}

// kindOf returns the value of -kind. Without one, a body with an event is a notification.
func kindOf(c *cli.Call, body []byte) (paymentsvc.MessageKind, error) {
	switch text := c.Text("kind"); text {
	case "request":
		return paymentsvc.KindRequest, nil
	case "notification":
		return paymentsvc.KindNotification, nil
	case "":
		if summaryOf(body).Event != "" {
			return paymentsvc.KindNotification, nil
		}
		return paymentsvc.KindRequest, nil
	}
	return 0, c.Fail("kind", "want request or notification")
}

// webAddress returns the address in a flag, or nil for an unset flag.
func webAddress(c *cli.Call, flag string) (*url.URL, error) {
	text := c.Text(flag)
	if text == "" {
		return nil, nil //nolint:nilnil // no address is a valid answer
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, c.Fail(flag, "want an address that starts with http:// or https://")
	case u.User != nil || u.Fragment != "":
		return nil, c.Fail(flag, "want an address without user and fragment")
	case strings.Contains(u.RawQuery, " "):
		return nil, c.Fail(flag, "want %%20 in place of a space")
	}
	return u, nil
}

func printSigned(c *cli.Call, key cli.Key, m *paymentsvc.Message, signature, file string) error {
	out := struct {
		Timestamp string `json:"timestamp"`
		Signature string `json:"signature"`
		Bytes     int    `json:"bytes"`
		As        string `json:"as"`
		Text      string `json:"text"`
	}{m.Timestamp, signature, len(m.Body), c.Text("as"), ""}
	var err error
	switch {
	case c.Bool("show"):
		out.As = "show"
		out.Text, err = shownText(key, shownMessage(c, m))
		c.Print("signed", out, "text   "+out.Text)
		return err
	case out.As == "headers":
		c.Print("signed", out, "timestamp: "+m.Timestamp, "signature: "+signature)
		return nil
	case !slices.Contains([]string{"curl", "fetch", "python", "php", "http"}, out.As):
		return c.Fail("as", "want headers, curl, fetch, python, php or http")
	case m.URL == nil:
		return cli.Usagef("-as %s: needs -url", out.As)
	case out.As == "http":
		var text bytes.Buffer
		err = capture.Write(&text, capture.Message{Method: m.Method, URL: m.URL, Header: m.Header, Body: m.Body})
		out.Text = text.String()
	case m.URL.Port() == map[string]string{"http": "80", "https": "443"}[m.URL.Scheme]:
		return c.Fail("url", "want no port %s: clients leave it out of the Host, which may be signed", m.URL.Port())
	case out.As == "fetch":
		out.Text, err = fetchCall(m)
	case out.As == "python":
		out.Text = pythonCode(m)
	case out.As == "php":
		out.Text = phpCode(m)
	default:
		out.Text, err = curlCommand(m, file, c.Bool("trim") || !isFile(c, file))
	}
	if err != nil {
		return err
	}
	return c.PrintRaw("signed", out, out.Text)
}

// isFile reports whether a later command can read the same bytes from a file. It cannot from a pipe, or from the
// standard input of this command.
func isFile(c *cli.Call, name string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, name)
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && !strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/proc/")
}

// shownText returns the canonical string with placeholders.
func shownText(key cli.Key, m *paymentsvc.Message) (string, error) {
	if key.Shown.Canonical == nil {
		return "", cli.Usagef("-show: this scheme cannot be shown without the secret")
	}
	text, err := key.Shown.Canonical(nil, m)
	if err != nil {
		return "", cli.Usagef("the scheme cannot sign this: %s", key.Mask(err.Error()))
	}
	return key.Mask(string(text)), nil
}
