package mock

import (
	"errors"
	"fmt"
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

// receiver is the address for a project and an event. 0 is any project, "" any event.
type receiver struct {
	text    string
	project int64
	event   string
	address string
}

// CheckReceivers returns an error for a text that is not a receiver of a project or an event. The first matching text
// applies to a notification, and Options.Notify without a matching text:
//
//	project_id=3003: http://127.0.0.1:9000/other
//	project_id=3003 event=refund.status_changed: http://127.0.0.1:9000/refunds
func CheckReceivers(texts []string) error {
	_, err := parseReceivers(texts)
	return err
}

func parseReceivers(texts []string) ([]receiver, error) {
	list := make([]receiver, 0, len(texts))
	for i, text := range texts {
		r, err := parseReceiver(text)
		if err != nil {
			return nil, fmt.Errorf("receiver %d: %w", i+1, err)
		}
		list = append(list, r)
	}
	return list, nil
}

func parseReceiver(text string) (receiver, error) {
	conditions, address, found := strings.Cut(text, ": ")
	if !found {
		return receiver{}, errors.New("want conditions, a colon, a space and an address")
	}
	r := receiver{text: text, address: strings.TrimSpace(address)}
	for condition := range strings.FieldsSeq(conditions) {
		switch name, value, _ := strings.Cut(condition, "="); name {
		case "project_id":
			id, err := strconv.ParseInt(value, 10, 64)
			if err != nil || id == 0 {
				return r, errors.New("project_id: not the number of a project")
			}
			r.project = id
		case "event":
			if !slices.Contains(events(), value) {
				return r, errors.New("event: not one of " + strings.Join(events(), ", "))
			}
			r.event = value
		default:
			return r, errors.New("a condition is project_id=ID or event=EVENT")
		}
	}
	if r.project == 0 && r.event == "" {
		return r, errors.New("a condition is missing: project_id=ID or event=EVENT")
	}
	return r, checkReceiver(r.address)
}

// of returns the address for a notification, or "".
func (rs receivers) of(project int64, event string) string {
	fits := func(r receiver) bool {
		return (r.project == 0 || r.project == project) && (r.event == "" || r.event == event)
	}
	if i := slices.IndexFunc(rs.own, fits); i >= 0 {
		return rs.own[i].address
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
