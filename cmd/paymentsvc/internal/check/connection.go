package check

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"
)

// Fact is one line of a result.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Value is the part for programs, nil if Text is enough.
	Value        any  `json:"value"`
	Observations int  `json:"observations"`
	Open         bool `json:"open"` // a contradiction, too few observations, or a limit of the evidence
}

// skew returns the service's Date minus the local time. A Date has whole seconds, so less than two seconds is 0.
func (x *Exchange) skew() (skew time.Duration, ok bool) {
	if x.Response == nil {
		return 0, false
	}
	date, err := http.ParseTime(x.Header.Get("Date"))
	if skew = date.Sub(x.End).Round(time.Second); skew.Abs() < 2*time.Second {
		skew = 0
	}
	return skew, err == nil
}

// Connection returns the facts about the connection, the clock and the result of one correct request.
func Connection(x *Exchange) []Fact {
	facts := []Fact{{Name: "address", Text: x.Request.URL.Host + " at " + x.Remote, Value: x.Remote, Observations: 1}}
	add := func(name string, value any, format string, args ...any) {
		facts = append(facts, Fact{Name: name, Text: fmt.Sprintf(format, args...), Value: value, Observations: 1})
	}
	add("proxy", x.Proxy, "%s", cmp.Or(x.Proxy, "none"))
	if x.Response != nil && x.TLS != nil && len(x.TLS.PeerCertificates) > 0 {
		certificate := x.TLS.PeerCertificates[0]
		age, left := x.Start.Sub(certificate.NotBefore)/(24*time.Hour), certificate.NotAfter.Sub(x.Start)/(24*time.Hour)
		add("tls", left, "%s, certificate %d days old, valid for %d more days", tls.VersionName(x.TLS.Version), age, left)
	}
	if x.Response != nil {
		add("http", x.StatusCode, "%s, status %d, %d ms", x.Proto, x.StatusCode, x.End.Sub(x.Start).Milliseconds())
	}
	if skew, ok := x.skew(); ok {
		add("clock", int(skew.Seconds()), "the service's clock minus this clock: %+.0f s", skew.Seconds())
	}
	if !x.Accepted {
		cause, next := diagnose(x)
		add("failed", nil, "no balance")
		add("likely cause", nil, "%s", cause)
		add("next", nil, "%s", next)
		return facts
	}
	add("signature", true, "accepted")
	add("ids", true, "partner and project accepted")
	b := x.Balance
	add("balance", b.PayoutBalance, "%s %s, expected %s", b.PayoutBalance, b.Currency, b.ExpectedBalance)
	return facts
}

// diagnose returns the most likely cause of a failure and the next step.
func diagnose(x *Exchange) (reason, next string) {
	const discover = "paymentsvc discover -secret-file FILE MESSAGE, with an accepted request or a notification"
	skew, _ := x.skew()
	switch {
	case x.Err != nil:
		return x.Err.Error(), "check -base-url, the network, and the proxy variables such as HTTPS_PROXY"
	case x.StatusCode == http.StatusTooManyRequests || x.StatusCode/100 == 5:
		return "a rate limit, or an unavailable service", "wait, then run paymentsvc check again"
	case x.StatusCode/100 == 3:
		return "the address redirects, and the client follows no redirect", "set -base-url to the final address"
	case x.form() == "html":
		return "a gateway, firewall or proxy replied, not the service",
			"check the path in -base-url, and ask whether the service accepts your IP address"
	case skew.Abs() > 30*time.Second:
		return fmt.Sprintf("this clock differs from the service's clock by %.0f s", skew.Abs().Seconds()), "set the clock"
	case x.StatusCode == http.StatusNotFound || x.StatusCode == http.StatusMethodNotAllowed:
		return "the service has no get_balance at this address", "check the path in -base-url"
	case x.StatusCode == http.StatusForbidden:
		return "the partner, the project or your IP address is not accepted, or the signature is wrong",
			"check -partner and -project; then " + discover
	}
	return "the signature scheme or the key is wrong, or the ids are",
		discover + ", and its lines open; also check -partner and -project"
}
