package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// change is how far an exported API has changed; each kind includes those before it.
type change int

const (
	unchanged change = iota
	added
	incompatible
)

func (c change) String() string {
	return [...]string{"unchanged", "something was added", "incompatible"}[c]
}

// checkVersion says whether a version may follow the tags that are there, which are in order.
func checkVersion(version string, tags []string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is not a version such as v1.2.3 or v1.3.0-rc.1", version)
	}
	if len(tags) == 0 {
		return nil
	}
	if last := tags[len(tags)-1]; semver.Compare(version, last) <= 0 {
		return fmt.Errorf("%s does not come after %s, the last tag", version, last)
	}
	last := lastRelease(tags)
	if last == "" { // only pre-releases so far
		return nil
	}
	next := nextVersions(last)
	if !slices.Contains(next, withoutPrerelease(version)) {
		return fmt.Errorf("%s leaves versions out: after %s comes %s", version, last, strings.Join(next, ", "))
	}
	return nil
}

// checkModulePath says whether a module of this path may have a version: from v2 on the path names the major version,
// or else nobody can ask for it.
func checkModulePath(version, path string) error {
	if !semver.IsValid(version) {
		return nil // said before
	}
	_, major, ok := module.SplitPathVersion(path)
	if ok && module.CheckPathMajor(version, major) == nil {
		return nil
	}
	if major != "" {
		return fmt.Errorf("the module is called %s, so it cannot have the version %s", path, version)
	}
	return fmt.Errorf("from v2 on the path of a module ends with its major version: for %s, go.mod and every import has to "+
		"say %s/%s first, and the go command ignores the tag until it does", version, path, semver.Major(version))
}

// checkPromise says whether a version says enough about what has changed since the last release. While the major
// version is 0, what is incompatible needs a new minor version and no more.
func checkPromise(version, last string, c change) error {
	newMajor := semver.Major(version) != semver.Major(last)
	newMinor := semver.MajorMinor(version) != semver.MajorMinor(last)
	next := nextVersions(last)
	switch {
	case !semver.IsValid(version): // said before
		return nil
	case c == incompatible && !newMajor && semver.Major(last) != "v0":
		return fmt.Errorf("the API is incompatible with that of %s: that needs %s", last, next[2])
	case c >= added && !newMinor:
		return fmt.Errorf("the API has changed since %s: that needs %s at least", last, next[1])
	default:
		return nil
	}
}

// lastRelease is the last of the tags that is no pre-release, "" without one.
func lastRelease(tags []string) string {
	for _, tag := range slices.Backward(tags) {
		if semver.Prerelease(tag) == "" {
			return tag
		}
	}
	return ""
}

// nextVersions are the patch, the minor and the major version that follow a release.
func nextVersions(release string) []string {
	var n [3]int
	for i, part := range strings.Split(strings.TrimPrefix(release, "v"), ".") {
		n[i], _ = strconv.Atoi(part) // a number, as semver has said
	}
	return []string{
		fmt.Sprintf("v%d.%d.%d", n[0], n[1], n[2]+1), fmt.Sprintf("v%d.%d.0", n[0], n[1]+1), fmt.Sprintf("v%d.0.0", n[0]+1),
	}
}

func withoutPrerelease(version string) string {
	return strings.TrimSuffix(version, semver.Prerelease(version))
}
