package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

const unreleased = "## [Unreleased]"

// changelog is a page in the form of Keep a Changelog.
type changelog struct {
	before string // all up to the heading of what is unreleased, and this heading
	notes  string // what stands below it, without blank lines around
	after  string // the releases before
}

func readChangelog(file string) (changelog, error) {
	text, err := os.ReadFile(file) //nolint:gosec // this repository's own
	if err != nil {
		return changelog{}, err
	}
	return parseChangelog(string(text))
}

func parseChangelog(text string) (changelog, error) {
	heading := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(unreleased) + `\s*$`)
	places := heading.FindAllStringIndex(text, -1)
	if len(places) != 1 {
		return changelog{}, fmt.Errorf("%s has %d headings %q, not one", changelogFile, len(places), unreleased)
	}
	start := places[0][0] + len(unreleased)
	end := len(text)
	// The section ends with the next heading of its level, or with the targets of links at the end of the page.
	if next := regexp.MustCompile(`(?m)^(## |\[[^\]]+\]: )`).FindStringIndex(text[start:]); next != nil {
		end = start + next[0]
	}
	log := changelog{before: text[:start], notes: strings.TrimSpace(text[start:end]), after: text[end:]}
	if strings.TrimSpace(regexp.MustCompile(`(?m)^###.*$`).ReplaceAllString(log.notes, "")) == "" {
		return changelog{}, fmt.Errorf("%s holds nothing below %q", changelogFile, unreleased)
	}
	log.notes += "\n"
	return log, nil
}

// release gives the page with the notes under a version and its day, by UTC.
func (c changelog) release(version string, now time.Time) string {
	day := now.UTC().Format(time.DateOnly)
	text := fmt.Sprintf("%s\n\n## [%s] - %s\n\n%s", c.before, strings.TrimPrefix(version, "v"), day, c.notes)
	if c.after != "" {
		text += "\n" + c.after
	}
	return text
}
