package discover

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

func (c *catalogue) addMessage() {
	stamped := !slices.ContainsFunc(c.samples, func(s *sample) bool { return s.message.Timestamp == "" })
	if stamped {
		c.add(piece{kind: ofTimestamp, shape: timestampShape(), cost: 1, text: "timestamp", desc: "timestamp"})
		c.add(piece{
			kind: ofTimestamp, shape: timestampShape(), rarity: uncommon, cost: 3, text: "timestamp-ms",
			desc: "timestamp in milliseconds",
		})
		c.addDates()
	}
	method := shape{form: fixedText} // every notification is a POST
	c.add(piece{kind: ofMethod, shape: method, cost: 1, text: "method", desc: "method"})
	c.add(piece{kind: ofMethod, shape: method, cost: 2, text: "lower(method)", desc: "method in lower case"})
	c.addFixed(ofMethod, c.samples[0].message.Method, needsMethod)
}

// addFixed adds a fixed text. Samples with equal parts cannot distinguish the part from the fixed text.
func (c *catalogue) addFixed(k kind, text, need string) {
	if text == "" {
		return
	}
	c.add(piece{
		kind: k, shape: shape{form: fixedText}, rarity: onlyExplains, cost: 8, needs: []string{need},
		text: strconv.Quote(text), desc: fmt.Sprintf("fixed text %q", text),
	})
}

// maxHeaders limits the headers of a message, because a client can send thousands.
const maxHeaders = 64

// addHeaders adds the headers that a Signer can see. The client, net/http and proxies add the other headers later.
func (c *catalogue) addHeaders() {
	addedInTransit := []string{
		"Accept-Encoding", "Connection", "Content-Length", "Expect", "Forwarded", "Host", "Keep-Alive", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Via", "X-Real-Ip", "Signature", "Timestamp",
	}
	usual := []string{"Accept", "Accept-Language", "Cache-Control", "Pragma", "User-Agent", "Content-Encoding"}
	var names []string
	for _, s := range c.samples {
		for name := range s.message.Header {
			switch {
			case name != http.CanonicalHeaderKey(name), slices.Contains(addedInTransit, name),
				strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "Cf-"),
				strings.HasPrefix(name, "Sec-"):
				continue
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names[:min(len(names), maxHeaders)] {
		rarity, identity, cost := common, name != "Content-Type", 2
		if slices.Contains(usual, name) {
			rarity, identity, cost = rare, false, 4
		}
		c.add(piece{
			kind: ofHeader, group: c.group("header " + name), rarity: rarity, identity: identity, cost: cost,
			names: []string{name}, shape: shape{has: isHeaderByte},
			text: fmt.Sprintf("header(%q)", name), desc: "header " + name,
		})
	}
}

func (c *catalogue) addSecret() {
	fixed := shape{form: fixedText}
	c.add(piece{kind: ofSecret, shape: fixed, cost: 3, identity: true, text: "secret", desc: "secret"})
	for _, label := range []string{"key=", "secret=", "secret_key="} {
		c.add(piece{
			kind: ofSecret, shape: fixed, rarity: uncommon, cost: 4, text: fmt.Sprintf("%q secret", label),
			desc: label + " and secret",
		})
	}
}

func (c *catalogue) addWords(words []string) {
	word := func(p piece, text string) {
		p.shape, p.needs = shape{form: fixedText}, []string{"other values"}
		p.text, p.desc = strconv.Quote(text), fmt.Sprintf("text %q", text)
		c.add(p)
	}
	for _, text := range words {
		word(piece{kind: ofWord, group: c.group("word " + text), identity: true, cost: 4}, text)
	}
	for _, mark := range []string{"v0", "v1", "v2", "1", "HMAC-SHA256", "hmac-sha256", "sha256"} {
		word(piece{kind: ofMark, rarity: uncommon, cost: 5}, mark)
	}
}

// addDates adds the timestamp as a date.
func (c *catalogue) addDates() {
	for i, layout := range []string{
		"2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000Z", "Mon, 02 Jan 2006 15:04:05 GMT", "2006-01-02T15:04:05",
		"20060102150405", "2006-01-02 15:04:05", "20060102T150405Z", "2006-01-02T15:04:05+00:00",
		"Mon, 02 Jan 2006 15:04:05 -0700", "2006-01-02", "20060102",
	} {
		c.add(piece{
			kind: ofTimestamp, shape: shape{has: isHeaderByte}, rarity: rare, cost: 4 + i,
			text: fmt.Sprintf("date(%q)", layout), desc: fmt.Sprintf("timestamp as a date such as %q", layout),
		})
	}
}

// addAgain adds the parts that can appear at both ends of a text.
func (c *catalogue) addAgain() {
	c.add(piece{
		kind: ofTimestamp, shelf: again, group: c.group("again timestamp"), shape: timestampShape(), cost: 4,
		text: "timestamp", desc: "timestamp",
	})
	c.add(piece{
		kind: ofSecret, shelf: again, group: c.group("again secret"), shape: shape{form: fixedText}, cost: 5,
		text: "secret", desc: "secret",
	})
}

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
	c.add(piece{
		kind: ofQuery, shape: host, rarity: uncommon, cost: 3, text: "sorted-query", desc: "sorted query",
		needs: []string{"a query that is not sorted"},
	})
	c.add(piece{kind: ofHost, shape: host, cost: 2, text: "host", desc: "host"})

	c.addNamedLines(target)
	m := &c.samples[0].message
	if path, err := canonical.Path(nil, m); err == nil {
		c.addFixed(ofAddress, string(path), needsEndpoint)
		c.addFixed(ofAddress, strings.TrimPrefix(string(path), "/"), needsEndpoint)
	}
	if host, err := canonical.Host(nil, m); err == nil {
		c.addFixed(ofHost, string(host), "another host")
	}
	c.add(piece{
		kind: ofNothing, shape: shape{form: fixedText}, cost: 5, text: `""`, desc: "nothing",
		needs: []string{needsQuery},
	})
}

// addNamedLines adds the lines whose names have a fixed spelling.
func (c *catalogue) addNamedLines(target shape) {
	c.add(piece{
		kind: ofAddress, shelf: colonSpace, shape: target, cost: 6,
		text: `"(request-target): " lower(method) " " uri`, desc: "(request-target) of an HTTP signature",
	})
	c.add(piece{
		kind: ofBody, shelf: colonSpace, shape: shape{form: digest}, cost: 5,
		text: `"digest: SHA-256=" base64(sha256(body))`, desc: "digest of an HTTP signature",
	})
	c.add(piece{
		kind: ofAddress, shelf: colon, shape: target, rarity: uncommon, cost: 6, text: `"Request-Target:" path`,
		desc: "Request-Target: and path",
	})
	c.add(piece{
		kind: ofBody, shelf: colon, shape: shape{form: digest}, rarity: uncommon, cost: 6,
		text: `"Digest:" base64(sha256(body))`, desc: "Digest: and SHA-256 of the body in base64",
	})
}

// basesOfPath returns the parent paths of the first sample's path, such as /api and /api/v1 for /api/v1/get_balance.
func (c *catalogue) basesOfPath() (bases []string) {
	path, _ := canonical.Path(nil, &c.samples[0].message) // empty if the message has no address
	for i := 1; i < len(path) && len(bases) < 8; i++ {
		if path[i] == '/' {
			bases = append(bases, string(path[:i]))
		}
	}
	return bases
}
