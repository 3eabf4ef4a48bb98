package main

import (
	"context"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func settingsCommand() cli.Command {
	return cli.Command{
		Name:    "settings",
		Summary: "Print each setting, its value and where it comes from",
		Flags: cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "base-url", "cacert", "partner", "project",
			"tolerance",
			"timestamp-header", "signature-header", "timeout"),
		Notes: "A flag wins over its variable, the variable over the settings file, and that over the default. Of a secret\n" +
			"only the name of its file is printed, and only if there is such a file.",
		Examples: []string{"paymentsvc settings", "paymentsvc settings -config staging.json -json"},
		Run: func(_ context.Context, c *cli.Call) error {
			return c.PrintSettings()
		},
	}
}
