package capture

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// fields maps the plainName of each member of a logged request to its value. A member of an inner object has a dotted
// name, unless the object is in [transparent]. A server variable, such as HTTP_SIGNATURE, also has a second key:
// "header:" with the header's name.
type fields map[string]node

const maxInner = 3 // depth of inner objects; requestContext.http.method needs two

// transparent lists the names of objects that only wrap the request.
var transparent = map[string]bool{"request": true, "req": true, "httprequest": true, "config": true}

// gather adds the members of an object, with prefix before their names.
func (f fields) gather(n node, prefix string, depth int) {
	for name, value := range n.members() {
		plain := plainName(name)
		switch {
		case isResponse(name):
		case prefix == "" && transparent[plain] && value.kind() == '"':
			f.requestLine(value.text())
			f[plain] = value
		case transparent[plain] && value.kind() == '{' && depth < maxInner:
			f.gather(value, prefix, depth+1)
		default:
			if header := serverName(name); header != "" && prefix == "" {
				f["header:"+header] = value
			}
			f[prefix+plain] = value
			if value.kind() == '{' && depth < maxInner && !strings.Contains(plain, "headers") {
				f.gather(value, prefix+plain+".", depth+1)
			}
		}
	}
}

// serverName returns the header in the name of a server variable, such as HTTP_SIGNATURE or http_signature, or "".
func serverName(name string) string {
	lower := strings.ToLower(name)
	header, isHeader := strings.CutPrefix(lower, "http_")
	if lower == "content_type" || lower == "content_length" {
		header, isHeader = lower, true
	}
	switch header {
	case "method", "version", "status", "code", "path", "url", "request":
		return ""
	}
	if !isHeader {
		return ""
	}
	return strings.ReplaceAll(header, "_", "-")
}

// requestLine sets the method and the address if text starts with a request line, such as POST /hook HTTP/1.1.
func (f fields) requestLine(text string) {
	first, _, _ := strings.Cut(text, "\n")
	method, rest, found := strings.Cut(strings.TrimSpace(first), " ")
	target, _, _ := strings.Cut(strings.TrimSuffix(rest, ":"), " ")
	if found && isToken(method) && (strings.HasPrefix(target, "/") || strings.Contains(target, "://")) {
		f["method"], f["url"] = quoted(method), quoted(target)
	}
}

func quoted(text string) node {
	raw, _ := json.Marshal(text) // encoding a string never fails
	return node{raw: raw}
}

// first returns the first value other than null and "". Without such a value, it returns the last "", if any.
func (f fields) first(names ...string) (found node) {
	for _, name := range names {
		n := f[name]
		if n.kind() != 0 && string(n.raw) != `""` {
			return n
		}
		if n.kind() != 0 {
			found = n
		}
	}
	return found
}

// text returns the first nonempty string or number, or "".
func (f fields) text(names ...string) string {
	for _, name := range names {
		if text := f[name].text(); text != "" {
			return text
		}
	}
	return ""
}

func (f fields) isTrue(names ...string) bool {
	text := string(f.first(names...).raw)
	return text == "true" || text == `"true"`
}

func (f fields) method() string {
	return f.text("httpmethod", "method", "requestmethod", "requestcontext.http.method", "verb")
}

func (f fields) target() string {
	return f.text("url", "url.raw", "absoluteurl", "uri", "requesturi", "requesturl", "originalurl", "fullurl", "target",
		"endpoint", "rawpath", "requestcontext.path", "path", "requestcontext.http.path")
}

func (f fields) headers() node {
	names := []string{
		"multivalueheaders", "rawheaders", "headers", "requestheaders", "header.headers", "header", "httpheaders",
	}
	for _, name := range names {
		if kind := f[name].kind(); kind == '{' || kind == '[' || kind == '"' && strings.Contains(name, "headers") {
			return f[name]
		}
	}
	return node{}
}

// raw returns the HTTP text of a request, decoded from base64 if necessary, or "".
func (f fields) raw() string {
	for _, name := range []string{"raw", "rawrequest", "request", "request.text"} {
		text := f[name].text()
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			text = string(decoded)
		}
		if first, _, more := strings.Cut(text, "\n"); more && isHead(first) && strings.Contains(first, " HTTP/") {
			return text
		}
	}
	return ""
}

// isMessage reports whether f describes a request.
func (f fields) isMessage() bool {
	_, present := f["headers"] // null counts as present
	for name := range f {
		present = present || strings.HasPrefix(name, "header:") && name != "header:content-type"
	}
	return present || f.headers().kind() != 0 || f.raw() != "" || f.method() != "" && f.target() != ""
}

// logged parses the request in the log of a gateway, a browser, a tool or a program.
func (t *text) logged(f fields, at int, o Options) (Message, error) {
	if raw := f.raw(); raw != "" {
		part := &text{name: t.name, listing: t.listing, data: raw}
		return part.http(o)
	}
	m := newMessage()
	m.Method = strings.ToUpper(f.method())
	if err := t.pairs(&m, f.headers()); err != nil {
		return m, err
	}
	for name, value := range f {
		header, found := strings.CutPrefix(name, "header:")
		text := value.text() // nginx logs a dash for a missing header
		if found && text != "-" && text != "" && m.Header.Get(header) == "" {
			if err := t.add(&m, header, value.text(), value.at); err != nil {
				return m, err
			}
		}
	}
	if err := t.loggedAddress(&m, f, at); err != nil {
		return m, err
	}
	return m, t.loggedBody(&m, f, at, o)
}

// loggedAddress builds the address of a logged request.
func (t *text) loggedAddress(m *Message, f fields, at int) error {
	target := f.target()
	if target == "" {
		m.note("there is no path, so the address is unknown; the signature may cover a part of the address")
		return nil
	}
	if _, err := url.ParseRequestURI(target); err != nil {
		target = (&url.URL{Path: target}).EscapedPath()
	}
	if stage := f.text("requestcontext.path"); stage != "" && f.text("path") != "" && f.text("path") != stage {
		m.note("the path is requestContext.path, which includes the stage")
	}
	if query := f.text("rawquerystring", "querystring", "query"); query != "" && !strings.Contains(target, "?") {
		target += "?" + strings.TrimPrefix(query, "?")
	}
	query := url.Values{}
	for name, value := range f.first("multivaluequerystringparameters", "querystringparameters").members() {
		for _, element := range value.elements() {
			query.Add(name, element.text())
		}
	}
	if len(query) > 0 && !strings.Contains(target, "?") {
		target += "?" + query.Encode()
		m.note("the query is rebuilt from its parameters; their order and escapes may differ from the signed query")
	}
	if err := t.address(m, target, at); err != nil {
		return err
	}
	host := f.text("requestcontext.domainname", "host", "hostname")
	if m.URL.Host == "" && m.Header.Get("Host") == "" && host != "" {
		m.URL.Scheme, m.URL.Host = cmp.Or(f.text("scheme"), "https"), host
	}
	return nil
}

// loggedBody sets the body of a logged request.
func (t *text) loggedBody(m *Message, f fields, at int, o Options) error {
	switch {
	case t.listing: // the list does not show bodies
		return nil
	case o.Body != nil:
		return t.bodyFile(m, o)
	case f.isTrue("masked"):
		return t.fail(at, "values of this body are masked: start paymentsvc mock with -show-bodies")
	}
	inBase64 := []string{"bodybase64", "bodyasbase64", "body.rawbytes", "body.base64", "body.encoded", "rawbodybase64"}
	if encoded := f.first(inBase64...); encoded.text() != "" {
		return t.setBody(m, encoded, true)
	}
	encoded := f.isTrue("isbase64encoded", "base64encoded", "base64") ||
		f.text("postdata.encoding", "body.encoding", "bodyencoding", "encoding") == "base64"
	body := f.first("rawbody", "bodyraw", "body.raw", "body.text", "body.body", "body.string", "postdata.text",
		"requestbody", "body", "content", "rawcontent", "payload", "data")
	size, _ := strconv.Atoi(f.text("bodysize"))
	_, hasBody := f["body"] // null counts as an empty body
	switch {
	case body.text() == "" && (f.first("postdata.params").kind() == '[' || f.text("body.mode") != ""):
		return t.fail(at, "the body is recorded as params or as a file name, without its bytes: %s", capturing)
	case body.kind() == 't' || body.kind() == 'f' || body.text() == "[object Object]":
		return t.fail(at, missingBody, capturing)
	case body.kind() == '{' || body.kind() == '[':
		m.Body = body.raw
		m.note("the body is JSON here, not a string: an earlier step parsed and encoded it, so the signed bytes may be lost")
	case body.kind() != 0:
		if err := t.setBody(m, body, encoded); err != nil {
			return err
		}
	}
	if hasBody && body.kind() == 0 {
		m.note("the body is null here, which counts as an empty body")
	}
	if size > 0 && len(m.Body) > 0 && size != len(m.Body) {
		m.note("bodySize is %d, but the body here has %d bytes", size, len(m.Body))
	}
	empty := body.kind() != 0 || f.first(inBase64...).kind() != 0 || hasBody || f.text("bodysize") == "0"
	return t.present(m, at, empty && size <= 0)
}

// capturing is the advice for captures without all bytes.
const capturing = "paymentsvc discover -listen ADDR -save DIR captures whole notifications, " +
	"and -proxy -to URL whole requests"

const missingBody = "the body is missing here: name its file with -body; %s"

// present rejects an empty body that the capture has probably lost. It accepts an empty body if Content-Length is 0, if
// the method has no body, or if recorded is true and Content-Length is missing.
func (t *text) present(m *Message, at int, recorded bool) error {
	length := m.Header.Get("Content-Length")
	if len(m.Body) > 0 || length == "0" || isBodiless(m.Method) || recorded && length == "" {
		return nil
	}
	return t.fail(at, missingBody, capturing)
}
