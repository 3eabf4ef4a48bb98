package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAVersionFollowsTheTags(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		tags    []string
		refused string // "" where the version may be given
	}{
		"the first":                         {"v1.0.0", nil, ""},
		"a first pre-release":               {"v0.1.0-rc.1", nil, ""},
		"a patch":                           {"v1.2.4", []string{"v1.2.3"}, ""},
		"a minor version":                   {"v1.3.0", []string{"v1.2.3"}, ""},
		"a major version":                   {"v2.0.0", []string{"v1.2.3"}, ""},
		"a pre-release":                     {"v1.3.0-rc.1", []string{"v1.2.3"}, ""},
		"another pre-release":               {"v1.3.0-rc.10", []string{"v1.2.3", "v1.3.0-rc.9"}, ""},
		"the release after its pre-release": {"v1.3.0", []string{"v1.2.3", "v1.3.0-rc.1"}, ""},
		"the first after pre-releases":      {"v1.0.0", []string{"v1.0.0-rc.1"}, ""},

		"no version":                     {"1.2.3", nil, `"1.2.3" is not a version`},
		"nothing":                        {"", nil, `"" is not a version`},
		"two numbers":                    {"v1.2", nil, `"v1.2" is not a version`},
		"a leading zero":                 {"v1.02.0", nil, `"v1.02.0" is not a version`},
		"a build":                        {"v1.2.3+5", nil, `"v1.2.3+5" is not a version`},
		"a flag of git":                  {"--force", nil, `"--force" is not a version`},
		"the same":                       {"v1.2.3", []string{"v1.2.3"}, "v1.2.3 does not come after v1.2.3, the last tag"},
		"an older one":                   {"v1.2.9", []string{"v1.2.8", "v1.10.0"}, "v1.2.9 does not come after v1.10.0, the last tag"},
		"a pre-release of what is there": {"v1.2.3-rc.1", []string{"v1.2.3"}, "v1.2.3-rc.1 does not come after v1.2.3, the last tag"},
		"a gap":                          {"v1.4.0", []string{"v1.2.3"}, "v1.4.0 leaves versions out: after v1.2.3 comes v1.2.4, v1.3.0, v2.0.0"},
		"a gap of patches": {"v1.3.1", []string{"v1.2.3", "v1.3.0-rc.1"},
			"v1.3.1 leaves versions out: after v1.2.3 comes v1.2.4, v1.3.0, v2.0.0"},
	} {
		t.Run(name, func(t *testing.T) { assertRefusal(t, test.refused, checkVersion(test.version, test.tags)) })
	}
}

func TestThePathOfTheModuleAllowsTheMajorVersion(t *testing.T) {
	for name, test := range map[string]struct{ version, path, refused string }{
		"v0":           {"v0.3.0", "example.com/pay", ""},
		"v1":           {"v1.0.0", "example.com/pay", ""},
		"v2":           {"v2.0.0", "example.com/pay/v2", ""},
		"v2, not said": {"v2.0.0", "example.com/pay", "go.mod and every import has to say example.com/pay/v2 first"},
		"v3 for v2":    {"v3.0.0", "example.com/pay/v2", "the module is called example.com/pay/v2, so it cannot have the version v3.0.0"},
		"v1 for v2":    {"v1.9.0", "example.com/pay/v2", "the module is called example.com/pay/v2, so it cannot have the version v1.9.0"},
	} {
		t.Run(name, func(t *testing.T) { assertRefusal(t, test.refused, checkModulePath(test.version, test.path)) })
	}
}

func TestAVersionPromisesNoMoreThanTheAPIKeeps(t *testing.T) {
	const (
		major = "the API is incompatible with that of v1.2.3: that needs v2.0.0"
		minor = "the API has changed since v1.2.3: that needs v1.3.0 at least"
		zero  = "the API has changed since v0.2.3: that needs v0.3.0 at least"
	)
	for name, test := range map[string]struct {
		version, last string
		change        change
		refused       string
	}{
		"a patch, unchanged":                {"v1.2.4", "v1.2.3", unchanged, ""},
		"a patch, added":                    {"v1.2.4", "v1.2.3", added, minor},
		"a patch, incompatible":             {"v1.2.4", "v1.2.3", incompatible, major},
		"a minor version, added":            {"v1.3.0", "v1.2.3", added, ""},
		"a pre-release, added":              {"v1.3.0-rc.1", "v1.2.3", added, ""},
		"a minor version, incompatible":     {"v1.3.0", "v1.2.3", incompatible, major},
		"a major version, incompatible":     {"v2.0.0", "v1.2.3", incompatible, ""},
		"a patch of v0, added":              {"v0.2.4", "v0.2.3", added, zero},
		"a patch of v0, incompatible":       {"v0.2.4", "v0.2.3", incompatible, zero},
		"a minor version of v0":             {"v0.3.0", "v0.2.3", incompatible, ""},
		"v1 after v0":                       {"v1.0.0", "v0.2.3", incompatible, ""},
		"no version, which was said before": {"x", "v1.2.3", incompatible, ""},
	} {
		t.Run(name, func(t *testing.T) {
			assertRefusal(t, test.refused, checkPromise(test.version, test.last, test.change))
		})
	}
}

func assertRefusal(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		assert.NoError(t, err)
	} else {
		assert.ErrorContains(t, err, want)
	}
}
