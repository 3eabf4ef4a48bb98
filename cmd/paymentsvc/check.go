package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/check"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

func checkCommand() cli.Command {
	return cli.Command{
		Name:    "check",
		Summary: "Check the connection to the service, and learn what the document does not specify",
		Flags: append(cli.Shared("base-url", "scheme", "scheme-file", "secret-file", "partner", "project", "timeout"),
			cli.NewFlag("probe", cli.Bool, "", "send the probes, and derive settings").OnLine(),
			cli.NewFlag("dry-run", cli.Bool, "", "print the list of requests without sending them").OnLine(),
			cli.NewFlag("interval", cli.Duration, "DURATION", "pause between requests").With("1s"),
			cli.NewFlag("order-id", cli.Text, "ID", "with -probe: order_id of your test payment, to list its status fields").
				OnLine(),
			cli.NewFlag("save", cli.File, "DIR", "save requests and responses in DIR, which must have mode 0700").
				Checked(cli.Written).OnLine(),
		),
		Notes: `Without -probe, the command sends one correctly signed get_balance request. -probe sends at most 20 requests,
with the pause of -interval between them. It calls only get_balance, status_payment and status_payout, and never starts
a payment or a payout. One probe has a wrong signature, and other probes have old and future timestamps. HTTP 429,
Retry-After, a lost connection or a rejected correct request ends the run, because each can mean a lockout. Ask the
service before you probe production.
The findings are evidence, not a specification.

Output has no secret, no signature, no order data and no full response. The files of -save have signatures and full
responses. Exit code 1: the service rejected the request, the run ended early, or the error format remains unknown. 3:
no connection.`,
		Examples: []string{
			"paymentsvc check -base-url https://pay.example.com -partner 1 -project 2",
			"paymentsvc check -probe -dry-run",
			"paymentsvc check -probe -save exchanges -json",
		},
		Run: runCheck,
	}
}

func runCheck(ctx context.Context, c *cli.Call) error {
	plan := check.Plan(c.Set("order-id"))
	if !c.Bool("probe") {
		if c.Set("order-id") {
			return c.Fail("order-id", "needs -probe")
		}
		plan = plan[:1]
	}
	if c.Bool("dry-run") {
		for i, p := range plan {
			c.Print("probe", p, fmt.Sprintf("%2d  %s", i+1, p))
		}
		return nil
	}
	session, key, err := newCheckSession(c)
	if err != nil {
		return err
	}
	seen, stopped, err := session.Run(ctx, plan)
	failure, called := errors.AsType[*paymentsvc.Error](err)
	switch {
	case errors.Is(err, paymentsvc.ErrInvalidRequest),
		called && ctx.Err() == nil && failure.Outcome == paymentsvc.OutcomeNotSent:
		return cli.Usagef("the request cannot be sent: %s", key.Mask(err.Error()))
	case err != nil:
		return err
	}
	_, seenIn := cutSeen(key.Text)
	facts := check.Connection(seen[0], seenIn)
	if len(plan) == 1 || !seen[0].Accepted {
		lines := factLines(key, facts)
		c.Print("checked", cli.Fields{"accepted": seen[0].Accepted, "facts": facts}, lines...)
		switch {
		case seen[0].Err != nil:
			return &cli.ExitError{Code: cli.ExitMachine}
		case !seen[0].Accepted:
			return cli.No()
		}
		return nil
	}
	found := check.Derive(seen, stopped)
	found.Facts = append(facts, found.Facts...)
	lines := factLines(key, found.Facts)
	if found.Go != "" {
		lines = append(lines, fmt.Sprintf("%-21s%s", "settings", cmp.Or(found.Settings, "none for the mock server")), "")
		lines = append(lines, strings.Split(strings.TrimSpace(found.Go), "\n")...)
	}
	c.Print("findings", found, lines...)
	if stopped != "" || found.Go == "" {
		return cli.No()
	}
	return nil
}

// factLines masks the texts of facts in place, and returns the facts as lines.
func factLines(key cli.Key, facts []check.Fact) (lines []string) {
	for i, f := range facts {
		facts[i].Text = key.Mask(f.Text)
		line := fmt.Sprintf("%-21s%s", f.Name, facts[i].Text)
		if f.Observations > 1 {
			line += fmt.Sprintf(" (%d observations)", f.Observations)
		}
		lines = append(lines, line)
	}
	return lines
}

func newCheckSession(c *cli.Call) (*check.Session, cli.Key, error) {
	for _, name := range []string{"base-url", "partner", "project"} {
		if !c.Set(name) {
			return nil, cli.Key{}, cli.Usagef("-%s: not set", name)
		}
	}
	key, err := c.Key()
	if err != nil {
		return nil, key, err
	}
	if c.Set("save") {
		if info, err := os.Stat(c.Text("save")); err == nil && os.PathSeparator == '/' && info.Mode().Perm()&0o077 != 0 {
			return nil, key, c.Fail("save", "other users can open the directory; want mode 0700")
		}
	}
	return &check.Session{
		BaseURL: c.Text("base-url"), Partner: c.Int("partner"), Project: c.Int("project"), OrderID: c.Text("order-id"),
		Scheme: key.Scheme, Secret: key.Secret, Transport: paymentsvc.NewTransport(), Now: c.Now,
		Wait: func(ctx context.Context) error { return transport.Wait(ctx, c.Duration("interval")) },
		Done: func(n int, x *check.Exchange) error {
			if c.Bool("probe") {
				c.Note("request %d: %s", n, x.Probe)
			}
			return saveExchange(c, n, x)
		},
	}, key, nil
}

// saveExchange writes a request and its response to NNNN.http and NNNN.http.response, if -save is set and a response
// was received.
func saveExchange(c *cli.Call, n int, x *check.Exchange) error {
	if !c.Set("save") || x.Response == nil {
		return nil
	}
	m := capture.Message{Method: x.Request.Method, URL: x.Request.URL, Header: x.Request.Header, Body: x.Sent}
	name, err := saveCapture(c, int64(n), m)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	x.Response.Body = io.NopCloser(bytes.NewReader(x.Body))
	_ = x.Write(&text) // for a truncated body, Write returns an error after it has written the body
	if err := capture.NewFile(c.Text("save"), path.Base(name)+".response", text.Bytes()); err != nil {
		return fmt.Errorf("-save: %w", err)
	}
	return nil
}
