package mock

import (
	"context"
	"net"
	"net/http"
	"net/netip"
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
		number, cutOff, err := c.reset()
		return http.StatusOK, answer{number, cutOff}, err
	default:
		return 0, nil, invalid("what", "what: not all, messages or faults")
	}
	return http.StatusOK, answer{c.epoch.number, 0}, nil
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
