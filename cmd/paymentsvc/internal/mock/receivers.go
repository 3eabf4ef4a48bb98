package mock

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// receivers are the addresses of notifications.
type receivers struct {
	own  []receiver
	rest string // for the other projects and events, or ""
}

// receiver is the address for the notifications that meet all conditions.
type receiver struct {
	text    string
	where   []condition
	address string
}

// CheckReceivers returns an error for an invalid receiver of a project or an event. The first matching text applies to
// a notification, and Options.Notify without a matching text. [CheckScript] documents the conditions:
//
//	project_id=3003: http://127.0.0.1:9000/other
//	project_id=3003 event=refund.*: http://127.0.0.1:9000/refunds
func CheckReceivers(texts []string) error {
	_, err := parseReceivers(texts)
	return err
}

func parseReceivers(texts []string) ([]receiver, error) {
	return parseEach("receiver", texts, parseReceiver)
}

func parseReceiver(text string) (r receiver, err error) {
	p := &scriptParser{text: text}
	if r.where, err = p.conditions("event", "project_id"); err != nil {
		return r, err
	}
	for _, c := range r.where {
		if c.name == "event" && !slices.ContainsFunc(events(), c.fits) {
			return r, errors.New("event: not one of " + strings.Join(events(), ", "))
		}
	}
	r.text, r.address = text, strings.TrimSpace(text[p.at:])
	if r.address == "" {
		return r, p.fail(p.at, "an address is missing")
	}
	return r, checkReceiver(r.address)
}

// of returns the address for a notification, or "".
func (rs receivers) of(project int64, event string) string {
	values := map[string]string{"project_id": strconv.FormatInt(project, 10), "event": event}
	for _, r := range rs.own {
		if !slices.ContainsFunc(r.where, func(c condition) bool { return !c.fits(values[c.name]) }) {
			return r.address
		}
	}
	return rs.rest
}

func (rs receivers) none() bool { return rs.rest == "" && len(rs.own) == 0 }

// receive sets the receivers of the fake.
func (e *epoch) receive(rs receivers) {
	if rs.none() {
		e.fake.SetReceiver(paymentsvctest.Receiver{})
		return
	}
	e.fake.SetReceiver(paymentsvctest.ToEach(func(n paymentsvctest.Notification) paymentsvctest.Receiver {
		address := rs.of(n.ProjectID, string(n.Event))
		if address == "" {
			return paymentsvctest.Receiver{}
		}
		return paymentsvctest.ToURL(address).Via(&outgoing{e})
	}))
}

func checkReceiver(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("not an address that starts with http:// or https://, without a user and a fragment")
	}
	return nil
}
