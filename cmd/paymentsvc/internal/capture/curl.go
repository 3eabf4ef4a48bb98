package capture

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	bodyOption    = regexp.MustCompile(`\s(?:-d|--data[a-z-]*|--json)\s`)
	curlAtStart   = regexp.MustCompile(`(?mi)^[ \t]*(?:\$ |# |% |(?:PS )?[A-Z]:\\[^>\r\n]*> ?)?curl(?:\.exe)?[ \t]`)
	backtickBreak = regexp.MustCompile("`\r?\n")
	caretEscape   = regexp.MustCompile(`\^(\r?\n|")`)
)

// commandStart returns the offset of the first line with a curl command, or -1. The line may start with a prompt.
func commandStart(data string) int {
	found := curlAtStart.FindStringIndex(data)
	if found == nil {
		return -1
	}
	return found[0]
}

// arguments guesses the shell of the command from its prompt, line breaks, escapes and quotes, and splits the command
// by the rules of the shell. It reports whether the shell is PowerShell.
func (t *text) arguments(start int) (s *shell, powershell bool, err error) {
	s = &shell{text: t, pos: start}
	command := t.data[start:]
	first, _, _ := strings.Cut(command, "\n")
	s.pos += strings.Index(strings.ToLower(first), "curl") // skip the prompt
	prompt := t.data[start:s.pos]
	switch {
	case strings.Contains(prompt, "PS "), backtickBreak.MatchString(command):
		err, powershell = s.split('`'), true
	case strings.Contains(prompt, ":"), caretEscape.MatchString(command):
		err = s.cmd()
	case strings.HasPrefix(strings.ToLower(s.rest()), "curl.exe") && strings.Contains(command, "'"):
		err, powershell = s.split('`'), true
	default:
		err = s.split('\\')
	}
	return s, powershell, err
}

// command is the state of a curl command during parsing.
type command struct {
	*text
	o          Options
	m          Message
	powershell bool
	address    *word
	data       []byte
	hasBody    bool
	json       bool // has the option --json
	hasType    bool // has an option -H for Content-Type, possibly to remove it
}

// curl parses a curl command.
func (t *text) curl(o Options) (Message, error) {
	s, powershell, err := t.arguments(commandStart(t.data))
	if err != nil {
		return Message{}, err
	}
	c := &command{text: t, o: o, powershell: powershell, m: newMessage()}
	for rest := s.words[1:]; len(rest) > 0; {
		rest, err = c.next(rest)
		if err != nil {
			return Message{}, err
		}
	}
	if lost := bodyOption.FindStringIndex(s.rest()); lost != nil && !c.hasBody && o.Body == nil {
		return Message{}, t.fail(s.pos, "the command ends here, before the option with its body: quote the address, "+
			"and end each line except the last with the shell's escape character")
	}
	return c.message(s.words[0].at)
}

// valued lists the curl options that need a value, without dashes. Every other option counts as an option without a
// value.
var valued = strings.Fields(`A C D E F H K P Q T U X Y b c d e m o r t u w x y z
	abstract-unix-socket alt-svc aws-sigv4 cacert capath cert
	cert-type ciphers config connect-timeout connect-to continue-at cookie cookie-jar create-file-mode crlfile
	curves data data-ascii data-binary data-raw data-urlencode delegation dns-interface dns-ipv4-addr dns-ipv6-addr
	dns-servers doh-url dump-header egd-file engine etag-compare etag-save expect100-timeout form form-string
	ftp-account ftp-alternative-to-user ftp-method ftp-port ftp-ssl-ccc-mode happy-eyeballs-timeout-ms
	haproxy-clientip header hostpubmd5 hostpubsha256 hsts interface ip-tos ipfs-gateway json keepalive-cnt
	keepalive-time key key-type krb libcurl limit-rate local-port login-options mail-auth mail-from mail-rcpt
	max-filesize max-redirs max-time netrc-file noproxy oauth2-bearer output output-dir parallel-max pass
	pinnedpubkey preproxy proto proto-default proto-redir proxy proxy-cacert proxy-capath proxy-cert proxy-cert-type
	proxy-ciphers proxy-crlfile proxy-header proxy-key proxy-key-type proxy-pass proxy-pinnedpubkey
	proxy-service-name proxy-tls13-ciphers proxy-tlsauthtype proxy-tlspassword proxy-tlsuser proxy-user proxy1.0
	pubkey quote random-file range rate referer request request-target resolve retry retry-delay retry-max-time
	sasl-authzid service-name socks4 socks4a socks5 socks5-gssapi-service socks5-hostname speed-limit speed-time
	stderr telnet-option tftp-blksize time-cond tls-max tls13-ciphers tlsauthtype tlspassword tlsuser trace
	trace-ascii trace-config unix-socket upload-file url url-query user user-agent variable vlan-priority
	write-out`)

// next parses one argument and its value, and returns the other words. An argument such as -sXPOST has several options.
func (c *command) next(words []word) (rest []word, err error) {
	w, rest := words[0], words[1:]
	name, long := strings.CutPrefix(w.text, "--")
	letters, short := strings.CutPrefix(w.text, "-")
	if !short || letters == "" || name == "" {
		return rest, c.target(w)
	}
	for ; !long && len(letters) > 1; letters = letters[1:] {
		name = letters[:1]
		if slices.Contains(valued, name) {
			return rest, c.option(name, word{letters[1:], w.at})
		}
		if err := c.option(name, w); err != nil {
			return nil, err
		}
	}
	if !long {
		name = letters
	}
	switch {
	case !slices.Contains(valued, name):
		return rest, c.option(name, w)
	case len(rest) == 0:
		return nil, c.fail(w.at, "this curl option lacks its value")
	}
	return rest[1:], c.option(name, rest[0])
}

// option applies one option to the message, or rejects it. It ignores options not listed here, even if curl adds a
// header for them, such as --compressed. value is the option's value, or the option itself if it needs no value.
func (c *command) option(name string, value word) error {
	switch name {
	case "G", "get":
		return c.fail(value.at, "curl -G is not supported: write the data into the address, and remove -G")
	case "I", "head":
		c.m.Method = http.MethodHead
	case "X", "request":
		c.m.Method = value.text
	case "H", "header":
		return c.header(value)
	case "A", "user-agent":
		return c.add(&c.m, "User-Agent", value.text, value.at)
	case "e", "referer":
		return c.add(&c.m, "Referer", value.text, value.at)
	case "b", "cookie":
		if strings.Contains(value.text, "=") { // otherwise value is a file name
			return c.add(&c.m, "Cookie", value.text, value.at)
		}
	case "url":
		return c.target(value)
	case "u", "user", "oauth2-bearer", "aws-sigv4":
		c.m.note("the Authorization header of curl's -u, --oauth2-bearer or --aws-sigv4 is omitted")
	case "d", "data", "data-ascii", "data-binary", "data-raw", "json":
		return c.body(name, value)
	case "F", "form", "form-string", "T", "upload-file", "K", "config", "data-urlencode", "url-query", "variable",
		"request-target":
		return c.fail(value.at, "an unsupported curl option: "+
			"-F, --form-string, -T, -K, --data-urlencode, --url-query, --variable or --request-target")
	}
	return nil
}

func (c *command) target(w word) error {
	if c.address != nil {
		return c.fail(w.at, "a second address, or the value of an unknown option: keep one address, and remove the option")
	}
	c.address = &w
	return nil
}

func (c *command) header(value word) error {
	if strings.HasPrefix(value.text, "@") {
		return c.fail(value.at, "headers in a file: add the headers to the command")
	}
	name, rest, found := strings.Cut(value.text, ":")
	if !found {
		name, rest = strings.TrimSuffix(value.text, ";"), ""
	}
	c.hasType = c.hasType || strings.EqualFold(name, "Content-Type")
	if found && strings.TrimSpace(rest) == "" {
		return nil // curl omits "Name:", and sends "Name;" with an empty value
	}
	return c.add(&c.m, name, rest, value.at)
}

// body appends the data of an option to the body.
func (c *command) body(option string, value word) error {
	data := []byte(value.text)
	file, named := strings.CutPrefix(value.text, "@")
	switch {
	case named && option != "data-raw":
		var err error
		data, err = c.read(file, value.at)
		if err != nil {
			return err
		}
		if option == "json" || option == "data-binary" {
			break
		}
		kept := strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(string(data))
		if len(kept) != len(data) {
			c.m.note("curl -d drops CR, LF and NUL from a file, so the body lacks these bytes; --data-binary keeps them")
			if bytes.IndexByte(data, 0) >= 0 {
				c.m.note("older versions of curl also drop the bytes after a NUL")
			}
		}
		data = []byte(kept)
	case c.powershell && strings.Contains(value.text, `\"`):
		data = []byte(strings.ReplaceAll(value.text, `\"`, `"`))
		c.m.note("each backslash before a quote is removed, because only PowerShell before 7.3 needs the backslash")
	case c.powershell && strings.Contains(value.text, `"`):
		c.m.note("PowerShell before 7.3 strips the double quotes from this body, but here the quotes remain")
	}
	c.json = c.json || option == "json"
	const most = 64 << 20 // a command can name the same file many times
	if len(c.data)+len(data) > most {
		return c.fail(value.at, "the body has more than 64 MiB")
	}
	if c.hasBody && option != "json" {
		c.data = append(c.data, '&')
	}
	c.data, c.hasBody = append(c.data, data...), true
	return nil
}

// read returns Options.Body if it is set, otherwise the contents of a file named in the command.
func (c *command) read(file string, at int) ([]byte, error) {
	switch {
	case c.o.Body != nil:
		return c.o.Body, nil
	case file == "-" || c.o.Open == nil:
		return nil, c.fail(at, "the body is in a file or in standard input: name a file with -body")
	}
	data, err := c.o.Open(file)
	if err != nil {
		return nil, c.fail(at, "the body's file is unreadable: name the file with -body")
	}
	return data, nil
}

// message returns the request of the command.
func (c *command) message(at int) (Message, error) {
	if c.address == nil {
		return Message{}, c.fail(at, "this curl command has no address")
	}
	address := c.address.text
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Message{}, c.fail(c.address.at, "the address is not an http or https URL")
	}
	u.Fragment, u.RawFragment = "", ""
	if host := c.m.Header.Get("Host"); host != "" {
		u.Host = host
	}
	c.m.URL = u
	if c.m.Method == "" && !c.hasBody && c.o.Body == nil {
		c.m.Method = http.MethodGet
	}
	c.m.Body = c.data
	if c.o.Body != nil && !c.hasBody {
		return c.m, c.bodyFile(&c.m, c.o)
	}
	switch {
	case !c.hasBody || c.hasType:
	case c.json:
		c.m.Header.Set("Content-Type", "application/json")
	default:
		c.m.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return c.m, nil
}
