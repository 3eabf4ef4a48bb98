package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// The exit codes besides 0. 0 is for success: found, valid, delivered, or stopped on request.
const (
	ExitNo         = 1   // no match, a wrong signature, a rejected message
	ExitUsage      = 2   // invalid flags, settings or input
	ExitMachine    = 3   // the machine: address in use, no connection, disk full
	ExitTimeout    = 124 // -timeout passed
	ExitInterrupt  = 130 // SIGINT before an answer
	ExitTerminated = 143 // SIGTERM before an answer
)

// ExitError is an error with an exit code. Other errors exit with [ExitMachine]. After a signal or -timeout, the
// context's error has its own code.
type ExitError struct {
	Code int
	// Err is printed on standard error. nil is for a command that has already printed its result.
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

// Usagef returns an error for invalid flags, settings or input. Name the flag, or file, line and column.
func Usagef(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// No returns the error of a command after it has printed a negative result.
func No() error { return &ExitError{Code: ExitNo} }

// Nof returns the error of a negative result, for standard error.
func Nof(format string, args ...any) error {
	return &ExitError{ExitNo, fmt.Errorf(format, args...)}
}

// Ended returns the error of a context after a signal or -timeout, and nil before. Return it if the command has no
// result.
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

// asExit returns the exit of the process after err, or nil.
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
