package ops

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/durable"
)

// functions returns the functions of the templates.
func (p *page) functions() template.FuncMap {
	return template.FuncMap{
		"utc": utc, "count": count, "age": age, "since": since, "control": controlHash,
		"mask": mask, "plain": plain, "body": body,
		"rowsOf": func(status *durable.Status, rows []durable.Row, selectable bool) table {
			return table{status, rows, selectable}
		},
		"login":  func() bool { return p.Login != nil },
		"notice": func() string { return p.Notice },
		"at":     func(path string) string { return p.location(path, nil) },
		"rowURL": func(userData string) string { return p.location("/row/"+url.PathEscape(userData), nil) },
		"listURL": func(values ...string) string { // pairs of name and value
			query := url.Values{}
			for i := 0; i+1 < len(values); i += 2 {
				query.Set(values[i], values[i+1])
			}
			return p.location("/rows", query)
		},
	}
}

// table is a list of rows. If Select is set, each row has a box to select it.
type table struct {
	Status *durable.Status
	Rows   []durable.Row
	Select bool
}

// frame is the common part of all pages.
type frame struct {
	Title, Who string // Who: the operator's name, or ""
	At         string // the current entry of the navigation, or ""
	Status     *durable.Status
}

type message struct {
	frame
	Text string
}

// frame returns the common part of a page.
func (p *page) frame(r *http.Request, title, at string) (frame, error) {
	status, err := p.store.Status(r.Context())
	return frame{Title: title, Who: by(r), At: at, Status: &status}, err
}

// show sends a page. It first renders the whole page, so that an error does not send a part of the page.
func (p *page) show(w http.ResponseWriter, status int, name string, view any) {
	var html bytes.Buffer
	if err := p.pages.ExecuteTemplate(&html, name, view); err != nil {
		p.Log.Error("ops: a page cannot be rendered", "page", name, "err", err)
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html.Bytes())
}

// since returns the age of a row as text, by the clock of the database.
func since(status *durable.Status, created time.Time) string { return age(status.Now.Sub(created)) }

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// count returns a number of [durable.Counts] as text.
func count(n int64) string {
	if n >= durable.CountLimit {
		return strconv.Itoa(durable.CountLimit) + " or more"
	}
	return strconv.FormatInt(n, 10)
}

// age returns a duration as text, in its largest unit.
func age(d time.Duration) string {
	for _, unit := range ageUnits {
		if d >= unit.length {
			return strconv.FormatInt(int64(d/unit.length), 10) + " " + unit.name
		}
	}
	return "0 s"
}

// ageUnits are the units of ages, the largest first.
var ageUnits = []struct {
	length time.Duration
	name   string
}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}

func mask(end string) string { return "••••\u00a0" + end }

// longNumber matches 13 or more digits of any script, also in JSON escapes, with up to three separators between two
// digits. A separator can be escaped in JSON, or be the space of a form.
var longNumber = regexp.MustCompile(digit + `(?:` + between + `{0,3}` + digit + `){12,}`)

const (
	digit   = `(?:\p{Nd}|\\u003[0-9])`
	between = `(?:[\p{Cc}\p{Z}\p{Pd}\p{Cf}._/+]|%20|\\[bfnrt/]|\\u[0-9a-fA-F]{4})`
)

// plain returns a text of an operator or of the service for a page. It replaces each long number that contains a card
// number by its last four characters, and escapes invisible characters. It keeps other long numbers, because the name
// of a file may contain a time.
func plain(text string) string {
	return escaped(longNumber.ReplaceAllStringFunc(text, func(number string) string {
		if hasCard(number) {
			return end(number)
		}
		return number
	}))
}

// body returns the body of a notification with only the end of each long number, which may be a damaged card number.
func body(text []byte) string { return escaped(longNumber.ReplaceAllStringFunc(string(text), end)) }

func end(number string) string {
	characters := []rune(number)
	return mask(string(characters[len(characters)-4:]))
}

// hasCard reports whether a long number contains the digits of a card: 13 to 19 digits, with the first digits of an
// issuer and the check digit of Luhn's formula. It returns true for any number with a digit of another script, or with
// an escape.
func hasCard(number string) bool {
	var digits []int
	for _, r := range number {
		switch {
		case r >= '0' && r <= '9':
			digits = append(digits, int(r-'0'))
		case r == '%' || r == '\\' || unicode.IsDigit(r): // an escape contains other digits
			return true
		}
	}
	for first := range digits {
		for length := 13; length <= min(19, len(digits)-first); length++ {
			if card := digits[first : first+length]; issued(card) && luhn(card) {
				return true
			}
		}
	}
	return false
}

// issued reports whether card begins with 22 to 27 or with 3 to 9. Some national cards begin with 8 or 9. issued
// excludes 1, because a time in Unix milliseconds begins with 1.
func issued(card []int) bool {
	return card[0] >= 3 || card[0] == 2 && card[1] >= 2 && card[1] <= 7
}

func luhn(card []int) bool {
	sum := 0
	for i, digit := range card {
		if (len(card)-i)%2 == 0 {
			digit = 2*digit/10 + 2*digit%10
		}
		sum += digit
	}
	return sum%10 == 0
}

// escaped escapes invalid UTF-8 and each invisible character, which could change the look of a page. It keeps line
// feeds and no-break spaces.
func escaped(text string) string {
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0])|0x100, 16)[1:])
		case r == '\n' || r == '\u00a0' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}
