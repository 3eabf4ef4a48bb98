package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func postReset(c *call) (int, any, error) {
	in := struct {
		What string `json:"what"`
	}{"all"}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	type answer struct {
		Epoch  int `json:"epoch"`
		CutOff int `json:"cut_off"`
	}
	switch in.What {
	case "messages":
		c.journal.forget()
	case "faults":
		c.clearFaults()
	case "all":
		number, cutOff, err := c.reset(paymentsvctest.State{}, nil)
		return http.StatusOK, answer{number, cutOff}, err
	default:
		return 0, nil, invalid("what", "what: not all, messages or faults")
	}
	return http.StatusOK, answer{c.epoch.number, 0}, nil
}

// state is a session's books, faults and schedule, without messages, destinations, card data and secrets.
type state struct {
	V         int           `json:"v"`
	LastOrder int           `json:"last_order"`
	Orders    []order       `json:"orders"`
	Waiting   []stateLetter `json:"waiting"`
	Faults    []faultIn     `json:"faults"`
	Scheduled []stateEvent  `json:"scheduled"`
	Script    []string      `json:"script"`
	Seen      int           `json:"messages_seen"` // which are not in the state
}

// stateLetter is a notification that waits.
type stateLetter struct {
	Event   string `json:"event"`
	OrderID string `json:"order_id"`
	Status  string `json:"status"`
	Amount  string `json:"amount"`
}

// stateEvent is a settlement that is to come, counted from when the state is restored.
type stateEvent struct {
	OrderID string `json:"order_id"`
	Status  string `json:"status"`
	In      string `json:"in"`
	Notify  bool   `json:"notify"`
}

func (e *epoch) state() state {
	books := e.fake.State()
	_, script := e.settings()
	st := state{
		V: 1, LastOrder: books.LastOrder, Orders: []order{}, Waiting: []stateLetter{}, Faults: []faultIn{},
		Scheduled: []stateEvent{}, Script: []string{}, Seen: e.journal.last(),
	}
	for _, o := range books.Orders {
		st.Orders = append(st.Orders, orderOf(o))
	}
	for _, n := range books.Outbox {
		st.Waiting = append(st.Waiting, stateLetter{string(n.Event), n.OrderID, string(n.StatusDescription), n.Amount.String()})
	}
	for _, f := range e.listFaults() {
		st.Faults = append(st.Faults, f.In)
	}
	now, _, _, events := e.clock.state()
	for _, ev := range events {
		st.Scheduled = append(st.Scheduled, stateEvent{ev.OrderID, string(ev.Status), max(ev.At.Sub(now), 0).String(), ev.Notify})
	}
	for _, line := range script {
		st.Script = append(st.Script, line.text)
	}
	return st
}

// restore replaces a session's state, in a new epoch.
func (s *session) restore(st state) error {
	if st.V != 1 {
		return invalid("v", "v: the state has version %d, want 1", st.V)
	}
	books := paymentsvctest.State{LastOrder: st.LastOrder}
	for _, o := range st.Orders {
		entry, err := o.inBooks(s.opt.Projects[0].ID)
		if err != nil {
			return err
		}
		books.Orders = append(books.Orders, entry)
	}
	script, err := parseScript(st.Script)
	if err != nil {
		return invalid("script", "%s", err)
	}
	events := make([]event, 0, len(st.Scheduled))
	waits := make([]time.Duration, 0, len(st.Scheduled))
	for _, ev := range st.Scheduled {
		status, err := statusName(ev.Status)
		if err != nil {
			return err
		}
		wait, err := duration("in", ev.In)
		if err != nil {
			return err
		}
		events, waits = append(events, event{OrderID: ev.OrderID, Status: status, Notify: ev.Notify}), append(waits, wait)
	}
	_, _, err = s.reset(books, func(e *epoch) error {
		for _, f := range st.Faults {
			if _, err := e.addFault(f); err != nil {
				return err
			}
		}
		return e.await(st.Waiting)
	})
	if _, told := errors.AsType[failed](err); err != nil && !told {
		err = invalid("orders", "%s", trimmed(err))
	}
	if err != nil {
		return err
	}
	s.change(nil, script)
	e := s.current()
	e.journal.restored(st.Seen)
	for i, ev := range events {
		e.clock.schedule(waits[i], ev)
	}
	return nil
}

// restored marks the messages of before as a hole.
func (j *journal) restored(seen int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq = max(j.seq, seen)
	j.evicted, j.hole = j.seq, j.seq
}

func getState(c *call) (int, any, error) {
	text, err := json.Marshal(c.state())
	return http.StatusOK, json.RawMessage(text), err
}

func putState(c *call) (int, any, error) {
	var st state
	if err := c.decode(&st); err != nil {
		return 0, nil, err
	}
	if err := c.restore(st); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, struct {
		Epoch int `json:"epoch"`
	}{c.session.current().number}, nil
}

// SaveState writes the main session's state to Options.StateFile, which it replaces in one step.
func (m *Mock) SaveState() error {
	text, err := json.MarshalIndent(m.main.current().state(), "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(m.opt.StateFile, append(text, '\n'))
}

// WriteFile writes a file beside its name and renames it into place, so that nobody reads a part of it. Its error names
// no file.
func WriteFile(name string, data []byte) error {
	file, err := beside(name)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // it is gone if all went well
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return withoutNames(err)
	}
	return withoutNames(os.Rename(file.Name(), name))
}

// beside returns a new file in the directory of name.
func beside(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, errors.New("is a directory")
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	return file, withoutNames(err)
}

// CheckWritable returns an error if [WriteFile] could not write a file of this name. It does not touch the file itself.
func CheckWritable(name string) error {
	file, err := beside(name)
	if err != nil {
		return err
	}
	return withoutNames(errors.Join(file.Close(), os.Remove(file.Name())))
}

// withoutNames returns the reason of an error about a temporary file, whose name says nothing to the user.
func withoutNames(err error) error {
	if reason, ok := errors.AsType[syscall.Errno](err); ok {
		return reason
	}
	return err
}

// LoadState reads what SaveState has written. It does nothing if there is no such file. Its error names the place.
func (m *Mock) LoadState() error {
	text, err := os.ReadFile(m.opt.StateFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return withoutNames(err)
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil {
		return stateError(text, err)
	}
	return m.main.restore(st)
}

// stateError says where the JSON of a state is wrong.
func stateError(text []byte, err error) error {
	offset, reason := int64(len(text)), "not a JSON object"
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	} else if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset, reason = wrong.Offset, decodeError(err).Error()
	}
	before := text[:min(max(offset-1, 0), int64(len(text)))]
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("line %d, column %d: %s", bytes.Count(before, []byte("\n"))+1, column, reason)
}

func postSave(c *call) (int, any, error) {
	if c.opt.StateFile == "" {
		return 0, nil, invalid("", "there is no file to save to: see -state")
	}
	if err := c.mock.SaveState(); err != nil {
		return 0, nil, failure(http.StatusInternalServerError, "internal", "", "%s", err)
	}
	return http.StatusOK, struct{}{}, nil
}

func postDrain(c *call) (int, any, error) {
	in := struct {
		Timeout string `json:"timeout"`
	}{"10s"}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	timeout, err := duration("timeout", in.Timeout)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), timeout)
	defer cancel()
	if c.journal.idle(ctx) != nil {
		return 0, nil, failure(http.StatusConflict, "in_flight", "", "%d messages are still in flight", c.journal.inFlight())
	}
	return http.StatusOK, struct{}{}, nil
}

func postStop(c *call) (int, any, error) {
	host, _, _ := net.SplitHostPort(c.r.RemoteAddr)
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Unmap().IsLoopback() || c.opt.Stop == nil {
		return 0, nil, failure(http.StatusForbidden, "not_loopback", "", "only a program on the mock's own machine may stop it")
	}
	if err := c.decode(&struct{}{}); err != nil {
		return 0, nil, err
	}
	c.opt.Stop()
	return http.StatusAccepted, struct{}{}, nil
}

// await puts notifications into the outbox of an epoch that has just been restored.
func (e *epoch) await(letters []stateLetter) error {
	books := e.fake.State()
	for _, l := range letters {
		a, err := amount("amount", l.Amount)
		if err != nil {
			return err
		}
		n, _, err := e.composed(l.OrderID, l.Status, l.Event, nil)
		if err != nil {
			return err
		}
		n.Amount = a
		books.Outbox = append(books.Outbox, n)
	}
	return e.fake.Restore(books)
}
