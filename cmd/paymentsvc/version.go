package main

import (
	"context"
	"runtime/debug"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// commitOf returns the commit of a build, with "-modified" after changes, or "unknown". A build of a downloaded
// module has no commit, but its version identifies the source.
func commitOf(build *debug.BuildInfo) string {
	commit, modified := "unknown", ""
	for _, s := range build.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	return commit + modified
}

func versionCommand() cli.Command {
	type version struct {
		Version   string `json:"version"`
		Commit    string `json:"commit"`
		Go        string `json:"go"`
		Interface string `json:"interface"`
	}
	return cli.Command{
		Name:     "version",
		Summary:  "Print the version",
		Examples: []string{"paymentsvc version"},
		Run: func(_ context.Context, c *cli.Call) error {
			v := version{Version: "unknown", Commit: "unknown", Interface: paymentsvc.InterfaceVersion}
			if build, ok := debug.ReadBuildInfo(); ok {
				v.Version, v.Go, v.Commit = build.Main.Version, build.GoVersion, commitOf(build)
			}
			c.Print("version", v,
				"paymentsvc "+v.Version+", commit "+v.Commit+", "+v.Go+", interface version "+v.Interface)
			return nil
		},
	}
}
