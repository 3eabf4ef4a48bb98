package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// The exit codes beside 0, which means yes: found, valid, delivered, or stopped on request.
const (
	ExitNo         = 1   // no: nothing fits, a wrong signature, a rejected message
	ExitUsage      = 2   // flags, settings, or input that cannot be read
	ExitMachine    = 3   // the machine: address in use, no connection, disk full
	ExitTimeout    = 124 // -timeout passed
	ExitInterrupt  = 130 // SIGINT before an answer
	ExitTerminated = 143 // SIGTERM before an answer
)

// ExitError is an error with an exit code. Other errors exit with [ExitMachine], and those of a context that a signal or
// -timeout has ended with the code of that.
type ExitError struct {
	Code int
	// Err is printed on standard error; nil prints nothing, for a command that has already printed its answer.
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

// Usagef returns an error for flags, settings or input that make no sense. Name the flag, or file, line and column.
func Usagef(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// No returns the error of a command that has printed that the answer is no.
func No() error { return &ExitError{Code: ExitNo} }

// Nof returns an error for the answer no, which is printed on standard error.
func Nof(format string, args ...any) error {
	return &ExitError{ExitNo, fmt.Errorf(format, args...)}
}

// Ended returns the error of a context that a signal or -timeout has ended: return it where no answer was possible. It
// returns nil while ctx goes on.
func Ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause, ok := errors.AsType[*ExitError](context.Cause(ctx)); ok {
		return cause
	}
	return ctx.Err()
}

// Interrupted is the cause of a context that SIGINT has ended.
func Interrupted() error { return &ExitError{ExitInterrupt, errors.New("interrupted")} }

// Terminated is the cause of a context that SIGTERM has ended.
func Terminated() error { return &ExitError{ExitTerminated, errors.New("terminated")} }

// asExit returns what err means for the process, nil for nothing.
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
	return &ExitError{exit.Code, err} // with the text of what wraps it
}

// name is the code of an error in JSON.
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
