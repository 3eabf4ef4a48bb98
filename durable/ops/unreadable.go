package ops

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/durable"
)

type unreadableView struct {
	frame
	List []unreadableText
}

type unreadableText struct {
	durable.Unreadable
	Text string
	Cut  bool // the whole body is longer
}

// unreadable lists the notifications with an unreadable body.
func (p *page) unreadable(w http.ResponseWriter, r *http.Request) {
	f, err := p.frame(r, "Unreadable notifications", "")
	var list []durable.Unreadable
	if err == nil {
		list, err = p.store.Unreadable(r.Context())
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	view := unreadableView{frame: f}
	for _, u := range list {
		view.List = append(view.List, unreadableText{u, visible(u.Body), u.Size > int64(len(u.Body))})
	}
	p.views.show(w, http.StatusOK, "unreadable.html", view)
}

// reviewUnreadable ends the review of one of them. Another operator may have done so before.
func (p *page) reviewUnreadable(w http.ResponseWriter, r *http.Request) {
	key := r.PostFormValue("key")
	err := p.store.ReviewUnreadable(r.Context(), key, by(r))
	if err != nil && !errors.Is(err, durable.ErrNotFound) {
		p.fail(w, r, err)
		return
	}
	p.Log.Info("ops: unreadable notification reviewed", "key", key, "by", by(r))
	http.Redirect(w, r, p.location("/unreadable", nil), http.StatusSeeOther)
}

// cardNumber matches 13 to 19 digits, also in groups.
var cardNumber = regexp.MustCompile(`[0-9](?:[ -]?[0-9]){12,18}`)

// visible returns the text of bytes with each invisible character escaped, because such a character could change the
// look of the page. It hides numbers that may be card numbers.
func visible(body []byte) string {
	var text strings.Builder
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		switch {
		case r == utf8.RuneError && size == 1:
			text.WriteString(`\x` + strconv.FormatUint(uint64(body[0])|0x100, 16)[1:])
		case r == '\n' || unicode.IsPrint(r):
			text.WriteRune(r)
		default:
			text.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		body = body[size:]
	}
	return cardNumber.ReplaceAllString(text.String(), "[number]")
}
