package canonical

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Path is the address's path as it is sent, with escapes and with the path of the base address. It is an error
// for a notification that came without its address, as through Webhook.Verify and Webhook.Parse; so it is for
// every part that takes something from the address.
func Path(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Path")
	}
	return append(dst, sentPath(m.URL)...), nil
}

// PathBelow is Path without prefix, such as "/init_payment/card" for a service that signs the path below its
// base address. PathBelow("/") is Path without the slash at its start. It is an error for the path not to start
// with prefix.
func PathBelow(prefix string) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if m.URL == nil {
			return nil, noAddress("PathBelow")
		}
		below, found := strings.CutPrefix(sentPath(m.URL), prefix)
		if !found {
			return nil, fmt.Errorf("canonical: the path does not start with PathBelow's %q", prefix)
		}
		return append(dst, below...), nil
	}
}

// DecodedPath is Path, with its error, and with its escapes decoded.
func DecodedPath(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("DecodedPath")
	}
	if m.URL.Path == "" {
		return append(dst, '/'), nil
	}
	return append(dst, m.URL.Path...), nil
}

// RequestURI is Path, with its error, and, where the address has a query, a question mark and the query: what the first
// line of an HTTP/1.1 request says.
func RequestURI(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("RequestURI")
	}
	dst = append(dst, sentPath(m.URL)...)
	if m.URL.RawQuery != "" {
		dst = append(append(dst, '?'), m.URL.RawQuery...)
	}
	return dst, nil
}

// URL is the whole address: scheme, host, path and query. It is an error for a message without them. A
// notification that a server received has no scheme; compose Literal("https://"), Host and RequestURI for it.
func URL(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("URL")
	}
	if m.URL.Scheme == "" || m.URL.Host == "" {
		return nil, errors.New("canonical: URL needs the scheme and the host, which this message's address has not")
	}
	dst = append(append(append(dst, m.URL.Scheme...), "://"...), m.URL.Host...)
	return RequestURI(dst, m)
}

// Host is the address's host, with the port where it has one. It is an error for a message without it.
func Host(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Host")
	}
	if m.URL.Host == "" {
		return nil, errors.New("canonical: Host needs the host, which this message's address has not")
	}
	return append(dst, m.URL.Host...), nil
}

// Query is the address's query as it is sent, without the question mark, and nothing for an address without one. It is
// an error for a message to have no address, as with Path.
func Query(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Query")
	}
	return append(dst, m.URL.RawQuery...), nil
}

// SortedQuery is Query, with its error, and with its key=value pairs sorted by their bytes. Escapes stay as they are.
func SortedQuery(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("SortedQuery")
	}
	if m.URL.RawQuery == "" {
		return dst, nil
	}
	pairs := strings.Split(m.URL.RawQuery, "&")
	slices.Sort(pairs)
	return append(dst, strings.Join(pairs, "&")...), nil
}

// sentPath is the path that net/http sends, which is never empty.
func sentPath(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

func noAddress(part string) error {
	return fmt.Errorf("canonical: %s needs the address, which this message came without", part)
}
