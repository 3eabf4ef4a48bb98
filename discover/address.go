package discover

import (
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

func (c *catalogue) addAddress() {
	path, below := shape{label: "/", has: isPathByte}, shape{has: isPathByte}
	target, whole := shape{label: "/", has: isTargetByte}, shape{label: "http", has: isTargetByte}
	host := shape{has: isTargetByte}
	address := func(s shape, rarity, cost int, text, desc string, needs ...string) {
		c.add(piece{kind: ofAddress, shape: s, rarity: rarity, cost: cost, text: text, desc: desc, needs: needs})
	}
	address(path, common, 1, "path", "path")
	address(target, common, 2, "uri", "path with the query", needsQuery)
	address(below, common, 3, `path-below("/")`, "the path without its first slash")
	address(whole, common, 3, "url", "address", needsQuery)
	address(
		shape{has: func(c byte) bool { return isPathByte(c) && c != '/' }}, uncommon, 4, "path-last",
		"last segment of the path",
	)
	address(host, uncommon, 5, "host path", "the host and path")
	address(host, uncommon, 6, "host uri", "the host, path and query", needsQuery)
	for _, scheme := range []string{"https://", "http://"} {
		address(whole, uncommon, 6, fmt.Sprintf("%q host uri", scheme), scheme+", host, path and query", needsQuery)
		address(whole, uncommon, 6, fmt.Sprintf("%q host path", scheme), scheme+", host and path")
	}
	for _, base := range c.basesOfPath() {
		address(below, uncommon, 3, fmt.Sprintf("path-below(%q)", base), "path below "+base, needsBase)
		address(below, uncommon, 4, fmt.Sprintf("path-below(%q)", base+"/"), "path below "+base+"/", needsBase)
	}
	address(shape{label: "/"}, rare, 3, "decoded-path", "path with its escapes decoded", needsEscape)
	address(path, rare, 4, "lower(path)", "path in lower case", needsUpperPath)
	address(path, rare, 4, "upper(path)", "path in upper case", needsLowerPath)
	address(whole, rare, 5, "lower(url)", "address in lower case", needsUpperPath, needsQuery)

	c.add(piece{kind: ofQuery, shape: host, cost: 2, text: "query", desc: "query"})
	c.add(
		piece{
			kind: ofQuery, shape: host, rarity: uncommon, cost: 3, text: "sorted-query", desc: "sorted query",
			needs: []string{"a query that is not sorted"},
		},
	)
	c.add(piece{kind: ofHost, shape: host, cost: 2, text: "host", desc: "host"})

	c.add(
		piece{
			kind: ofAddress, shelf: colonSpace, shape: target, cost: 6,
			text: `"(request-target): " lower(method) " " uri`, desc: "(request-target) of an HTTP signature",
		},
	)
	c.add(
		piece{
			kind: ofBody, shelf: colonSpace, shape: shape{form: digest}, cost: 5,
			text: `"digest: SHA-256=" base64(sha256(body))`, desc: "digest of an HTTP signature",
		},
	)
	m := &c.samples[0].message
	if path, err := canonical.Path(nil, m); err == nil {
		c.addFixed(ofAddress, string(path), needsEndpoint)
		c.addFixed(ofAddress, strings.TrimPrefix(string(path), "/"), needsEndpoint)
	}
	if host, err := canonical.Host(nil, m); err == nil {
		c.addFixed(ofHost, string(host), "another host")
	}
	c.add(
		piece{
			kind: ofNothing, shape: shape{form: fixedText}, cost: 5, text: `""`, desc: "nothing",
			needs: []string{needsQuery},
		},
	)
}

// basesOfPath returns the paths above that of the first sample, such as /api and /api/v1 for /api/v1/get_balance.
func (c *catalogue) basesOfPath() (bases []string) {
	path, _ := canonical.Path(nil, &c.samples[0].message) // empty if the message has no address
	for i := 1; i < len(path) && len(bases) < 8; i++ {
		if path[i] == '/' {
			bases = append(bases, string(path[:i]))
		}
	}
	return bases
}
