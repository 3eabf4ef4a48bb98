package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"

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
			cli.NewFlag("url", cli.Address, "URL", "address of the request, for -as and for schemes that sign it"),
			cli.NewFlag("method", cli.Text, "METHOD", "HTTP method").With(http.MethodPost).Checked(isMethod),
			kindFlag("request or notification").With("request"),
			cli.NewFlag("as", cli.Choice, "FORM", "headers, curl (for a POSIX shell), fetch, python, php or http").
				With("headers").Among("headers", "curl", "fetch", "python", "php", "http").OnLine(),
			cli.NewFlag("show", cli.Bool, "", "print the signed text, with placeholders for the secret and card data").
				OnLine(),
			cli.NewFlag("trim", cli.Bool, "", "remove one line end from the end of the body").OnLine(),
			cli.NewFlag("timestamp", cli.Int, "SECONDS", "Unix time to sign (default now)").Checked(cli.AtLeast(0)).OnLine(),
		),
		Notes: "Without FILE, the command reads the body from standard input. -as curl prints a command that reads FILE.\n" +
			"With -trim or without FILE, the printed command contains the body.",
		Examples: []string{
			"paymentsvc sign -url https://pay.example.com/get_balance body.json",
			"paymentsvc sign -url http://127.0.0.1:8080/get_balance -as curl -trim body.json | sh",
		},
		Run: runSign,
	}
}

func isMethod(text string) error {
	onlyLetters := text != "" && strings.Trim(strings.ToUpper(text), "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	return cli.Want(onlyLetters, "want letters only, such as POST")
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
	if err := signMessage(key, m); err != nil {
		return err
	}
	if c.Bool("trim") || file == "-" || !isFile(c, file) { // "-" is standard input, even if a file has this name
		file = ""
	}
	return printSigned(c, key, m, file)
}

func messageToSign(c *cli.Call, file string) (*paymentsvc.Message, error) {
	address := c.Address("url")
	if address != nil && address.Path == "" {
		address.Path = "/" // every client sends this path
	}
	body, err := c.ReadInput(file, file)
	if err != nil {
		return nil, err
	}
	if rest, ends := bytes.CutSuffix(body, []byte("\n")); ends {
		if c.Bool("trim") {
			body = bytes.TrimSuffix(rest, []byte("\r"))
		} else {
			c.Note("%s ends with a line end, which is signed; -trim removes the line end", file)
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
	return newMessage(kindOf(c, nil), strings.ToUpper(c.Text("method")), address, seconds, body), nil
}

// printSigned prints a signed message. The curl command sends the body from file, unless file is "".
func printSigned(c *cli.Call, key cli.Key, m *paymentsvc.Message, file string) error {
	out := struct {
		Timestamp string `json:"timestamp"`
		Signature string `json:"signature"`
		Bytes     int    `json:"bytes"`
		As        string `json:"as"`
		Text      string `json:"text"`
	}{m.Timestamp, m.Header.Get("Signature"), len(m.Body), c.Text("as"), ""}
	var err error
	switch {
	case c.Bool("show"):
		out.As = "show"
		out.Text, err = shownText(key, shownMessage(c, m))
		if err != nil {
			return err
		}
		c.Print("signed", out, "text   "+out.Text)
		return nil
	case out.As == "headers":
		c.Print("signed", out, "timestamp: "+out.Timestamp, "signature: "+out.Signature)
		return nil
	case m.URL == nil:
		return cli.Usagef("-as %s: needs -url", out.As)
	case out.As != "http" && m.URL.Port() == map[string]string{"http": "80", "https": "443"}[m.URL.Scheme]:
		return c.Fail("url", "want no port %s: clients omit a default port from the Host, which may be signed", m.URL.Port())
	}
	out.Text, err = capture.Code(out.As, captured(m), file)
	if err != nil {
		return cli.Usagef("-as %s: %w", out.As, err)
	}
	return c.PrintRaw("signed", out, out.Text)
}

// isFile reports whether a later command can read the same bytes from a file. A later command cannot read them from a
// pipe, or from the standard input of this command.
func isFile(c *cli.Call, name string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, name)
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && !strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/proc/")
}

// shownText returns the canonical string with placeholders.
func shownText(key cli.Key, m *paymentsvc.Message) (string, error) {
	text, err := key.Shown.Canonical(nil, m)
	if err != nil {
		return "", cli.Usagef("the scheme cannot sign this message: %s", key.Mask(err.Error()))
	}
	return key.Mask(string(text)), nil
}
