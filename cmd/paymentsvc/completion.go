package main

import (
	"context"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func completionCommand() cli.Command {
	return cli.Command{
		Name:    "completion",
		Summary: "Print the completion script of a shell",
		Usage:   "bash|zsh|fish|powershell",
		MaxArgs: 1,
		Run: func(context.Context, *cli.Call) error {
			return cli.Usagef("not yet")
		},
	}
}
