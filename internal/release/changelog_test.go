package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsUnreleasedMovesUnderTheVersion(t *testing.T) {
	const (
		head  = "# Changelog\n\nIn words.\n\n## [Unreleased]\n"
		notes = "### Added\n\n- One,\n  in two lines.\n\n### Fixed\n\n- Another.\n"
		older = "## [1.0.0] - 2026-01-02\n\n- First.\n"
		links = "[Unreleased]: https://example.com\n"
	)
	east := time.Date(2026, 3, 1, 1, 0, 0, 0, time.FixedZone("", 2*60*60)) // the day before, by UTC
	const heading = "\n## [1.1.0] - 2026-02-28\n\n"
	for name, test := range map[string]struct{ page, want string }{
		"the first release":   {head + "\n" + notes, head + heading + notes},
		"after another":       {head + "\n" + notes + "\n" + older, head + heading + notes + "\n" + older},
		"before links":        {head + "\n" + notes + "\n" + links, head + heading + notes + "\n" + links},
		"without blank lines": {head + notes + older, head + heading + notes + "\n" + older},
		"with many":           {head + "\n\n\n" + notes + "\n\n\n" + older, head + heading + notes + "\n" + older},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := parseChangelog(test.page)
			require.NoError(t, err)
			assert.Equal(t, notes, log.notes)
			released := log.release("v1.1.0", east)
			assert.Equal(t, test.want, released)

			_, err = parseChangelog(released)
			assert.ErrorContains(t, err, "holds nothing", "nothing is unreleased any more")
		})
	}
}

func TestAChangelogWithoutNotesIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ page, refused string }{
		"no heading":      {"# Changelog\n\n## [1.0.0]\n\n- One.\n", "0 headings"},
		"two headings":    {"## [Unreleased]\n\n- One.\n\n## [Unreleased]\n\n- Two.\n", "2 headings"},
		"in a line":       {"See ## [Unreleased]\n\n- One.\n", "0 headings"},
		"nothing":         {"## [Unreleased]\n", "holds nothing"},
		"blank lines":     {"## [Unreleased]\n\n \n\n## [1.0.0]\n\n- One.\n", "holds nothing"},
		"headings only":   {"## [Unreleased]\n\n### Added\n\n### Fixed\n\n## [1.0.0]\n\n- One.\n", "holds nothing"},
		"links of a page": {"## [Unreleased]\n\n[Unreleased]: https://example.com\n", "holds nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseChangelog(test.page)
			assert.ErrorContains(t, err, test.refused)
		})
	}
}
