package discover

import (
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func (c *catalogue) addAddress() {
	path, below := shape{label: "/", has: isPathByte}, shape{has: isPathByte}
	target, whole := shape{label: "/", has: isTargetByte}, shape{label: "http", has: isTargetByte}
	host := shape{has: isTargetByte}
	address := func(s shape, rarity, cost int, part paymentsvc.CanonicalFunc, expr, desc string, needs ...string) {
		c.add(piece{kind: ofAddress, shape: s, rarity: rarity, cost: cost, part: part, expr: expr, desc: desc, needs: needs})
	}
	address(path, common, 1, canonical.Path, "canonical.Path", "path")
	address(target, common, 2, canonical.RequestURI, "canonical.RequestURI", "path with the query", needsQuery)
	address(below, common, 3, canonical.PathBelow("/"), `canonical.PathBelow("/")`, "the path without its first slash")
	address(whole, common, 3, canonical.URL, "canonical.URL", "address", needsQuery)
	address(host, uncommon, 5, canonical.Join("", canonical.Host, canonical.Path), `canonical.Join("", canonical.Host, canonical.Path)`, "the host and path")
	address(host, uncommon, 6, canonical.Join("", canonical.Host, canonical.RequestURI), `canonical.Join("", canonical.Host, canonical.RequestURI)`, "the host, path and query", needsQuery)
	for _, scheme := range []string{"https://", "http://"} {
		address(whole, uncommon, 6, canonical.Join("", canonical.Literal(scheme), canonical.Host, canonical.RequestURI),
			fmt.Sprintf(`canonical.Join("", canonical.Literal(%q), canonical.Host, canonical.RequestURI)`, scheme),
			fmt.Sprintf("%s, host, path and query", scheme), needsQuery)
		address(whole, uncommon, 6, canonical.Join("", canonical.Literal(scheme), canonical.Host, canonical.Path),
			fmt.Sprintf(`canonical.Join("", canonical.Literal(%q), canonical.Host, canonical.Path)`, scheme),
			fmt.Sprintf("%s, host and path", scheme))
	}
	for _, base := range c.basesOfPath() {
		address(below, uncommon, 3, canonical.PathBelow(base), fmt.Sprintf("canonical.PathBelow(%q)", base),
			"path below "+base, needsBase)
		address(below, uncommon, 4, canonical.PathBelow(base+"/"), fmt.Sprintf("canonical.PathBelow(%q)", base+"/"),
			"path below "+base+"/", needsBase)
	}
	address(shape{label: "/"}, rare, 3, canonical.DecodedPath, "canonical.DecodedPath", "path with its escapes decoded", needsEscape)
	address(path, rare, 4, canonical.Lower(canonical.Path), "canonical.Lower(canonical.Path)", "path in lower case", needsUpperPath)
	address(path, rare, 4, canonical.Upper(canonical.Path), "canonical.Upper(canonical.Path)", "path in upper case", needsLowerPath)
	address(whole, rare, 5, canonical.Lower(canonical.URL), "canonical.Lower(canonical.URL)", "address in lower case", needsUpperPath, needsQuery)

	query := func(rarity, cost int, part paymentsvc.CanonicalFunc, expr, desc string, needs ...string) {
		c.add(piece{kind: ofQuery, shape: host, rarity: rarity, cost: cost, part: part, expr: expr, desc: desc, needs: needs})
	}
	query(common, 2, canonical.Query, "canonical.Query", "query")
	query(uncommon, 3, canonical.SortedQuery, "canonical.SortedQuery", "sorted query", "a query that is not sorted")
	c.add(piece{kind: ofHost, shape: host, rarity: common, cost: 2, part: canonical.Host, expr: "canonical.Host", desc: "host"})

	for _, fixed := range []struct {
		kind       kind
		part       paymentsvc.CanonicalFunc
		text, need string
	}{{ofAddress, canonical.Path, "", needsEndpoint}, {ofAddress, canonical.PathBelow("/"), "", needsEndpoint}, {ofHost, canonical.Host, "", "another host"}} {
		if text, err := fixed.part(nil, &c.samples[0].message); err == nil && len(text) > 0 {
			c.addFixed(fixed.kind, string(text), fixed.need)
		}
	}
	c.add(piece{kind: ofNothing, shape: shape{form: fixedText}, cost: 5, part: canonical.Literal(""), expr: `canonical.Literal("")`, desc: "nothing", needs: []string{needsQuery}})
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
