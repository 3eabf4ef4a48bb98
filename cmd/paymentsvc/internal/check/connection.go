package check

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Connection returns the facts about the connection, the clock and the result of one correct request. seenIn is
// "requests" or "notifications" if the scheme was found only in messages of this kind, or "".
func Connection(x *Exchange, seenIn string) []Fact {
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
		cause, next := diagnose(x, seenIn == "notifications")
		add("failed", nil, "no balance")
		for _, name := range fieldsOf(x) {
			if value := valueAt(x.Body, name); !slices.Contains(documented(), name) && x.isShownCode(name, value) {
				add("response", nil, "%s: %s", name, value)
			}
		}
		add("likely cause", nil, "%s", cause)
		add("next", nil, "%s", next)
		return facts
	}
	add("signature", true, "accepted")
	add("ids", true, "partner and project accepted")
	if seenIn == "notifications" {
		add("scheme", nil, "seen in notifications only, but also accepted for requests: remove \"seen in notifications\"")
	}
	b := x.Balance
	add("balance", b.PayoutBalance, "%s %s, expected %s", b.PayoutBalance, x.shown(b.Currency), b.ExpectedBalance)
	return facts
}

// isShownCode reports whether the output may contain a field of an error response. The field must be a code, and not
// long, because a long value may be the signature that the service expected.
func (x *Exchange) isShownCode(name, value string) bool {
	isDigest := len(value) > 32 || len(value) > 16 && strings.ContainsAny(value, "0123456789")
	return codeName.MatchString(name[strings.LastIndexByte(name, '.')+1:]) && x.isCode(value) && !isDigest
}

// diagnose returns the most likely cause of a failure and the next step. otherKind reports whether the scheme was found
// in notifications only.
func diagnose(x *Exchange, otherKind bool) (reason, next string) {
	const discover = "paymentsvc discover -secret-file FILE -out DIR REQUEST, with a request that the service accepted"
	skew, _ := x.skew()
	record, notTLS := errors.AsType[tls.RecordHeaderError](x.Err)
	switch {
	case notTLS && string(record.RecordHeader[:]) == "HTTP/":
		return "the port expects http, not https", "set -base-url to the HTTPS port, or to http for a loopback address"
	case x.Err != nil:
		return x.Err.Error(), "check -base-url, the network, and the proxy variables such as HTTPS_PROXY"
	case x.StatusCode == http.StatusBadRequest && strings.Contains(string(x.Body), "HTTPS"):
		return "the port expects https, not http", "set -base-url to https"
	case x.StatusCode == http.StatusTooManyRequests || x.StatusCode/100 == 5:
		return "a rate limit, or an unavailable service", "wait, then run paymentsvc check again"
	case x.StatusCode/100 == 3:
		return "the address redirects, but the client does not follow redirects", "set -base-url to the final address"
	case x.form() == "html":
		return "a gateway, firewall or proxy replied, not the service",
			"check the path in -base-url, and ask whether the service accepts your IP address"
	case skew.Abs() > 30*time.Second:
		return fmt.Sprintf("this clock differs from the service's clock by %.0f s", skew.Abs().Seconds()), "set the clock"
	case x.StatusCode == http.StatusNotFound || x.StatusCode == http.StatusMethodNotAllowed:
		return "the service has no get_balance at this address", "check the path in -base-url"
	case otherKind:
		return "requests may have another scheme, because this scheme was seen in notifications only; or an id is wrong",
			discover + "; also check -partner and -project"
	case x.StatusCode == http.StatusForbidden:
		return "the partner, the project or your IP address is not accepted, or the signature is wrong",
			"check -partner and -project; then " + discover
	}
	return "the signature scheme, the key or an id is wrong",
		discover + ", and read the lines \"open\"; also check -partner and -project"
}

// skew returns the Date header minus the local time in whole seconds, or false without a Date. 1 s becomes 0, because a
// Date has whole seconds.
func (x *Exchange) skew() (skew time.Duration, ok bool) {
	if x.Response == nil {
		return 0, false
	}
	date, err := http.ParseTime(x.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	skew = date.Sub(x.End).Round(time.Second)
	if skew.Abs() < 2*time.Second {
		skew = 0
	}
	return skew, true
}
