package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

// Fields are the fields of an object printed with -json.
type Fields = map[string]any

// controls are the control characters that encoding/json does not escape.
var controls = regexp.MustCompile("[\u007f-\u009f]")

// Print prints one result on standard output. With -json, it prints the object in one line, with "type" and "v"
// before its fields. Without -json, it prints the lines as [Printable] returns them. Print does not mask card data;
// the caller does. After a failed write, the command fails with the write's error.
func (c *Call) Print(kind string, object any, lines ...string) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.is("json") {
		if _, err := c.Stdout.Write(record(kind, object)); err != nil {
			c.failed = err
		}
		return
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(c.Stdout, Printable(line)); err != nil {
			c.failed = err
		}
	}
}

// Note prints a line on standard error, or an object with -json, with card data masked. It prints each text only once,
// and with -q it does not print.
func (c *Call) Note(format string, args ...any) {
	c.out.Lock()
	defer c.out.Unlock()
	text := mask.Text(fmt.Sprintf(format, args...))
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	if c.noted[text] || c.is("q") {
		return
	}
	c.noted[text] = true
	if c.is("json") {
		_, _ = c.Stderr.Write(record("note", Fields{"message": text}))
		return
	}
	_, _ = fmt.Fprintln(c.Stderr, "note  ", Printable(text))
}

// is reports whether a common flag such as -json is set. It also works before prepare resolves the other flags.
func (c *Call) is(name string) bool {
	v := c.values[name]
	return len(v.Texts) > 0 && v.Texts[0] == "true"
}

// record returns a line of JSON with kind, version and the fields of object. object may be nil.
func record(kind string, object any) []byte {
	head := fmt.Appendf(nil, `{"type":%q,"v":1`, kind)
	fields, err := json.Marshal(object)
	if err != nil || len(fields) <= 2 || fields[0] != '{' {
		return append(head, "}\n"...)
	}
	line := append(append(append(head, ','), fields[1:]...), '\n')
	return controls.ReplaceAllFunc(line, func(c []byte) []byte {
		r, _ := utf8.DecodeRune(c)
		return fmt.Appendf(nil, `\u%04x`, r)
	})
}

// printError prints an error on standard error.
func (c *Call) printError(e *ExitError) {
	if e.Err == nil {
		return
	}
	c.out.Lock()
	defer c.out.Unlock()
	text := mask.Text(e.Error()) // an argument can be a card number by mistake
	if c.is("json") {
		_, _ = c.Stderr.Write(record("error", Fields{
			"command": c.command.Name, "code": e.name(), "exit": e.Code, "message": text,
		}))
		return
	}
	_, _ = fmt.Fprintf(c.Stderr, "%s: %s\n", strings.TrimSpace(c.Program.Name+" "+c.command.Name), Printable(text))
}

// Printable returns text with escapes for invalid UTF-8 and for each invisible character, such as a line end, but not
// for a tab.
func Printable(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r == '\t' || strconv.IsPrint(r):
			out.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return out.String()
}

// PrintRaw is like [Call.Print] with one text, such as an HTTP message. Without -json, it writes the text unchanged and
// without a further line end, and returns the error of this write.
func (c *Call) PrintRaw(kind string, object any, text string) error {
	if c.is("json") {
		c.Print(kind, object)
		return nil
	}
	if _, err := io.WriteString(c.Stdout, text); err != nil {
		return &ExitError{ExitMachine, err}
	}
	return nil
}

// The exit codes after a failure. Exit code 0 means success: found, valid, delivered, or stopped on request.
const (
	ExitNo         = 1   // no match, a wrong signature, a rejected message
	ExitUsage      = 2   // invalid flags, settings or input
	ExitMachine    = 3   // the machine: address in use, no connection, disk full
	ExitTimeout    = 124 // -timeout passed
	ExitInterrupt  = 130 // SIGINT before a result
	ExitTerminated = 143 // SIGTERM before a result
)

// ExitError is an error with an exit code. Other errors exit with [ExitMachine]. After a signal or -timeout, the
// context's error exits with the code of the signal or timeout.
type ExitError struct {
	Code int
	// Err is printed on standard error. nil means that the command has already printed its result.
	Err error
}

// Error returns the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns an error for invalid flags, settings or input. The text must name the flag, or file, line and column.
func Usagef(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// No returns the error of a command that has printed a negative result.
func No() error { return &ExitError{Code: ExitNo} }

// Ended returns the error of a context after a signal or -timeout, and nil before. A command without a result must
// return this error.
func Ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause, ok := errors.AsType[*ExitError](context.Cause(ctx)); ok {
		return cause
	}
	return ctx.Err()
}

// Interrupted returns the cause of a context after SIGINT.
func Interrupted() error { return &ExitError{ExitInterrupt, errors.New("interrupted")} }

// Terminated returns the cause of a context after SIGTERM.
func Terminated() error { return &ExitError{ExitTerminated, errors.New("terminated")} }

// asExit converts err to an [ExitError]. It returns nil for nil.
func asExit(ctx context.Context, err error) *ExitError {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = cmp.Or(Ended(ctx), err)
	}
	exit, ok := errors.AsType[*ExitError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return &ExitError{ExitMachine, err}
	case exit.Err == nil:
		return exit
	}
	return &ExitError{exit.Code, err} // with the text of the wrapping error
}

// name returns the code of an error in JSON.
func (e *ExitError) name() string {
	switch e.Code {
	case ExitNo:
		return "no"
	case ExitUsage:
		return "usage"
	case ExitTimeout:
		return "timeout"
	case ExitInterrupt, ExitTerminated:
		return "stopped"
	}
	return "machine"
}
