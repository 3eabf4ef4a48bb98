package canonical

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Path is the path of the address as it is sent: escaped, and with the path of the base address. Like every part that
// needs the address, it returns an error for a notification that came through Webhook.Verify or Webhook.Parse, which do
// not know it.
func Path(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Path")
	}
	return append(dst, sentPath(m.URL)...), nil
}

// PathBelow is [Path] without prefix, for a service that signs the path below its base address, such as
// "/init_payment/card". PathBelow("/") is Path without its first slash. It returns an error if the path does not start
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

// PathLast is the last segment of [Path], with the same error, such as "get_balance".
func PathLast(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("PathLast")
	}
	path := sentPath(m.URL)
	return append(dst, path[strings.LastIndexByte(path, '/')+1:]...), nil
}

// DecodedPath is [Path], with the same error, with its escapes decoded.
func DecodedPath(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("DecodedPath")
	}
	if m.URL.Path == "" {
		return append(dst, '/'), nil
	}
	return append(dst, m.URL.Path...), nil
}

// RequestURI is [Path], with the same error, followed by a question mark and the query if there is one: the target of
// an HTTP/1.1 request.
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

// URL is the whole address: scheme, host, path and query. It returns an error for a message without scheme or host. A
// notification that a server received has no scheme: compose Literal("https://"), [Host] and [RequestURI].
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

// Host is the host of the address, with its port if it has one. It returns an error for a message without it.
func Host(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Host")
	}
	if m.URL.Host == "" {
		return nil, errors.New("canonical: Host needs the host, which this message's address has not")
	}
	return append(dst, m.URL.Host...), nil
}

// Query is the query of the address as it is sent, without the question mark; it may be empty. It returns an error
// for a message without an address, like [Path].
func Query(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Query")
	}
	return append(dst, m.URL.RawQuery...), nil
}

// SortedQuery is [Query], with the same error, with its key=value pairs sorted by their bytes. Escapes stay as they
// are.
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

// sentPath returns the path that net/http sends, which is never empty.
func sentPath(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

func noAddress(part string) error {
	return fmt.Errorf("canonical: %s needs the address, which this message came without", part)
}
