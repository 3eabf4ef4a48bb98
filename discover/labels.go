package discover

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// addLabelled adds plain pieces with a label. It skips rare pieces except timestamps, and complex bodies and addresses.
func (c *catalogue) addLabelled(on shelf, equals string) {
	for _, p := range slices.Clone(c.pieces) {
		tooRare := p.rarity > uncommon && p.kind != ofTimestamp
		if p.shelf != plain || tooRare || p.kind == ofBody && p.cost > 2 || p.kind == ofAddress && p.cost > 3 {
			continue
		}
		for i, name := range labelsOf(p) {
			if made := c.label(p, name, equals, on, i); made != nil && i < maxLabels {
				c.pieces = append(c.pieces, made)
			}
		}
	}
}

// maxLabels limits the labels of a piece outside blocks.
const maxLabels = 6

// label returns a piece with a label before it, or nil if read rejects it. place is 0 for the most common label.
func (c *catalogue) label(p *piece, name, equals string, on shelf, place int) *piece {
	id := strconv.Itoa(p.group) + name + equals + p.text
	if known := c.byText[id]; known != nil {
		return known
	}
	labelled := *p
	labelled.shelf = on
	labelled.rarity = max(p.rarity, min(place, uncommon))
	labelled.shape.label = name + equals + p.shape.label
	labelled.cost = p.cost + 1 + place
	labelled.text = strconv.Quote(name+equals) + " " + p.text
	labelled.part = canonical.Labelled(name+equals, p.part)
	labelled.desc = name + equals + " and " + p.desc
	made := c.read(labelled)
	c.byText[id] = made
	return made
}

// labelsOf returns the labels that services write before a piece, the most common first.
func labelsOf(p *piece) []string {
	switch p.kind {
	case ofTimestamp:
		return []string{
			"timestamp", "ts", "t", "time", "date", "nonce",
			"auth_timestamp", "signTimestamp", "timeStamp", "tonce", "expires", "Timestamp",
		}
	case ofMethod:
		return []string{"method"}
	case ofAddress:
		return []string{"path", "uri", "url"}
	case ofBody:
		if p.shape.form == digest {
			return []string{"digest", "body_md5", "body_sha256", "body", "body_hash", "bodyHash", "Digest", "hash"}
		}
		return []string{"body", "data", "payload", "digest", "request_body", "content", "requestBody"}
	case ofQuery:
		return []string{"query"}
	case ofHost:
		return []string{"host"}
	case ofSecret:
		if p.rarity == common { // the other pieces have a label already
			return []string{"secret", "key", "secret_key"}
		}
	case ofHeader:
		return headerLabels(p.names[0])
	case ofField:
		last := p.names[len(p.names)-1]
		if len(p.names) > 1 {
			return []string{strings.Join(p.names, "."), last}
		}
		if camel := camelCase(last); camel != last {
			return []string{last, camel, last[strings.LastIndexByte(last, '_')+1:]}
		}
		return []string{last}
	}
	return nil
}

// headerLabels returns the labels of a header.
func headerLabels(header string) []string {
	name := strings.ToLower(header)
	short := strings.TrimPrefix(name, "x-")
	if short == name {
		return []string{name, header}
	}
	snake := strings.ReplaceAll(short, "-", "_")
	labels := []string{name, short, header, snake, camelCase(snake)}
	if strings.Contains(name, "nonce") {
		labels = append(labels, "nonce_str", "noncestr")
	}
	return append(labels, callerLabels(name)...)
}

// callerLabels returns the labels of an API key or of a caller's id, and nil for other headers.
func callerLabels(header string) []string {
	for _, mark := range []string{"key", "id", "client", "partner", "merchant", "app", "token"} {
		if strings.Contains(header, mark) {
			return []string{"key", "accessKey", "access_key", "accesskey", "auth_key", "AccessKeyId", "appid"}
		}
	}
	return nil
}

// camelCase returns snake_case as snakeCase.
func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
