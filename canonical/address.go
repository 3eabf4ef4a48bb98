package canonical

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Path appends the path of the address as sent: escaped, and with the path of the base address. Webhook.Verify and
// Webhook.Parse do not know the address, so every part of the address returns an error for their notifications.
func Path(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Path")
	}
	return append(dst, sentPath(m.URL)...), nil
}

// PathBelow returns a part that appends [Path] without prefix, for a service that signs the path below its base
// address, such as "/init_payment/card". PathBelow("/") omits the first slash. The part returns an error if the path
// does not start with prefix.
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

// PathLast appends the last segment of [Path], such as "get_balance".
func PathLast(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("PathLast")
	}
	path := sentPath(m.URL)
	return append(dst, path[strings.LastIndexByte(path, '/')+1:]...), nil
}

// DecodedPath appends [Path] with decoded escapes.
func DecodedPath(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("DecodedPath")
	}
	if m.URL.Path == "" {
		return append(dst, '/'), nil
	}
	return append(dst, m.URL.Path...), nil
}

// RequestURI appends the target of an HTTP/1.1 request: [Path], then a question mark and the query if there is a query.
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

// URL appends the whole address: scheme, host, path and query. It returns an error for a message without scheme or
// host. A notification received by a server has no scheme, so join Literal("https://"), [Host] and [RequestURI]
// instead.
func URL(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("URL")
	}
	if m.URL.Scheme == "" || m.URL.Host == "" {
		return nil, errors.New("canonical: URL needs scheme and host, but this message lacks one of them")
	}
	dst = append(append(append(dst, m.URL.Scheme...), "://"...), m.URL.Host...)
	return RequestURI(dst, m)
}

// Host appends the host of the address, with the port if present. It returns an error for a message without a host.
func Host(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Host")
	}
	if m.URL.Host == "" {
		return nil, errors.New("canonical: Host needs the host, but the address of this message has no host")
	}
	return append(dst, m.URL.Host...), nil
}

// Query appends the query of the address as sent, without the question mark. The query may be empty.
func Query(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Query")
	}
	return append(dst, m.URL.RawQuery...), nil
}

// SortedQuery appends [Query] with its key=value pairs sorted by their bytes. It keeps the escapes.
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

// sentPath returns the path that net/http sends. It is never empty.
func sentPath(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

func noAddress(part string) error {
	return fmt.Errorf("canonical: %s needs the address, but this message has no address", part)
}
