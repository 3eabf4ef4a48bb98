package paymentsvctest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Config configures a [Server].
type Config struct {
	// PartnerID is the only partner that the server knows. It is required.
	PartnerID int64
	// Projects are the projects of the partner. At least one project is required.
	Projects []Project
	// Scheme signs requests and notifications. It is required, because the document specifies no scheme.
	Scheme paymentsvc.Scheme
	// SchemeText is the text form of Scheme, for the reasons in [SignatureFault]; see package canonical. "" is allowed.
	SchemeText string

	// BasePath is the path of {base_url}, such as "/partner/v1"; "" is the root.
	BasePath string
	// Now is the clock of notifications, Date headers, Tolerance and ClientConfig. nil means time.Now.
	Now func() time.Time
	// Logf prints the seed of [Server.Chaos]. nil means no output with [New], and t.Logf otherwise.
	Logf func(format string, args ...any)

	// Tolerance is how far the timestamp of a request may be from Now, in both directions. 0, the default, accepts
	// every age, because the document specifies no tolerance.
	Tolerance time.Duration
	// Numbers has the status and status_code of each status name. The document does not specify them, so the defaults
	// are a choice of this package: PENDING {1, 10}, SUCCESS {2, 20}, FAILURE {3, 30}.
	Numbers map[paymentsvc.StatusName]Numbers
	// ErrorCode and ErrorMessage are the names of the fields of an error's code and message, which the document does
	// not specify. "error.code" is the field "code" of the object "error", and "errors.0.code" is in the first object
	// of the list "errors". "" means "error_code" and "error_message".
	ErrorCode    string
	ErrorMessage string
	// Errors sets the response to a problem, which the document does not specify. By default the code is the text of
	// the [Problem], with the HTTP status in the comment of its constant.
	Errors map[Problem]ErrorAnswer
	// Repeated selects the behaviour for a duplicate user_data, which the document does not specify. The default is
	// RejectRepeated.
	Repeated Repeated
	// Check, if not nil, returns an error to reject an order. The order has no Number and OrderID yet, and may be a
	// duplicate. Check may call the server, for example [Server.Balance]. Without Check the server accepts any amount
	// above 0 and any destination, because the document specifies no limits. The payout balance may become negative.
	Check func(Order) error
	// LastOrder is one less than the first order's number. Set it to continue the numbers and ids of another server.
	LastOrder int
	// IDSpace is the first 12 digits of each order_id chosen by the server, as a number; 0 means zeros. Servers with
	// different values choose different ids.
	IDSpace int64
	// Pages is the beginning of redirect_url and invoice_url, before payment/{order_id}, form/{order_id} or
	// invoice/{order_id}. The default is "https://pay.example/", with a host name reserved for examples.
	Pages string
	// ExplainSignatures adds the reason for a wrong signature to the message of the response, see [SignatureFault]. By
	// default, only [Server.SignatureFaults] returns it.
	ExplainSignatures bool
	// OnStart, if not nil, is called with each order that a request has added to the books, before the response. OnStart
	// may call the server: [Server.Settle] and then [Server.Deliver] send a notification before the response. Do not call
	// [Server.Drain], because Drain waits for the same request.
	OnStart func(Order)
	// OnChecked, if not nil, is called with each request that the server itself accepts or rejects, before the
	// response. The server does not check requests that a fault ends or responds to before the commitment.
	OnChecked func(*http.Request, Verdict)
	// Format, if not nil, rewrites the responses of the server itself, of [Reject], and of [TooManyRequests] before the
	// commitment. failed reports whether the response is an error. Changes by other faults do not pass through Format.
	Format func(failed bool, status int, header http.Header, body []byte) (newStatus int, newBody []byte)
	// NotifyAttempts is the maximum number of attempts of [Server.Deliver] to send a notification. 0 means 3, which is a
	// choice of this package, because the document does not specify retries.
	NotifyAttempts int
	// MaxRecords bounds each of the lists of rejections, signature faults and deliveries. The server drops the older half
	// of a longer list, and then the assertions about this list fail. 0 means 100,000. Orders are never dropped.
	MaxRecords int
}

// Project configures a project of the partner.
type Project struct {
	// ID is required.
	ID int64
	// Secret is the project secret key, which signs requests and notifications. It is required.
	Secret paymentsvc.Secret
	// OldSecret is the key before a rotation, or "". It signs the notifications of [SignedWithOldSecret]. The server
	// rejects requests signed with it, and [Server.SignatureFaults] reports them.
	OldSecret paymentsvc.Secret
	// Balance is the opening payout balance; not set means 0.
	Balance paymentsvc.Amount
	// Currency is the currency of get_balance. "" means "XTS".
	Currency string
}

// Numbers are the numbers of a status, which the document does not specify (section 3).
type Numbers struct {
	// Status and StatusCode are the fields status and status_code of responses and notifications.
	Status, StatusCode int64
}

// ErrorAnswer is the response to a problem.
type ErrorAnswer struct {
	// HTTPStatus is required.
	HTTPStatus int
	// Code is the code in JSON: `"E17"` or `17`. It is required.
	Code json.RawMessage
}

// Problem is a reason to reject a request.
type Problem string

// The problems and their default HTTP statuses, which are the choice of this package.
const (
	ProblemEndpoint    Problem = "endpoint"           // no such path: 404
	ProblemMethod      Problem = "method"             // not POST: 405
	ProblemContentType Problem = "content_type"       // not application/json: 415
	ProblemTooLarge    Problem = "too_large"          // a body over 1 MiB: 413
	ProblemHeader      Problem = "header"             // timestamp or signature missing, repeated or malformed: 401
	ProblemSignature   Problem = "signature"          // not the signature of this request: 401
	ProblemTimestamp   Problem = "timestamp"          // further from the clock than Config.Tolerance: 401
	ProblemBody        Problem = "body"               // not one JSON object without duplicate names: 400
	ProblemField       Problem = "field"              // missing, unknown or of the wrong type: 400
	ProblemIDs         Problem = "ids"                // another partner, or an unknown project: 403
	ProblemAmount      Problem = "amount"             // 0 or less, which the document does not forbid: 422
	ProblemNotFound    Problem = "order_not_found"    // no such order in the project: 404
	ProblemRepeated    Problem = "repeated_user_data" // see Repeated: 409
	ProblemRefused     Problem = "refused"            // by Config.Check, after Close, or too many digits: 422
)

func defaultStatuses() map[Problem]int {
	return map[Problem]int{
		ProblemEndpoint:    http.StatusNotFound,
		ProblemMethod:      http.StatusMethodNotAllowed,
		ProblemContentType: http.StatusUnsupportedMediaType,
		ProblemTooLarge:    http.StatusRequestEntityTooLarge,
		ProblemHeader:      http.StatusUnauthorized,
		ProblemSignature:   http.StatusUnauthorized,
		ProblemTimestamp:   http.StatusUnauthorized,
		ProblemBody:        http.StatusBadRequest,
		ProblemField:       http.StatusBadRequest,
		ProblemIDs:         http.StatusForbidden,
		ProblemAmount:      http.StatusUnprocessableEntity,
		ProblemNotFound:    http.StatusNotFound,
		ProblemRepeated:    http.StatusConflict,
		ProblemRefused:     http.StatusUnprocessableEntity,
	}
}

// Repeated is the behaviour for a duplicate user_data. The document does not specify it.
type Repeated int

const (
	// RejectRepeated rejects the duplicate with ProblemRepeated. It is the zero value.
	RejectRepeated Repeated = iota
	// SameOrder responds with the existing order. It rejects a request with another endpoint, amount or destination, but
	// does not compare the destination with an order that [Server.Seed] added without a destination.
	SameOrder
	// NewOrder starts another order.
	NewOrder
)

// complete validates c and sets defaults.
func (c *Config) complete() error {
	switch {
	case c.PartnerID == 0:
		return invalid("PartnerID", "not set")
	case len(c.Projects) == 0:
		return invalid("Projects", "empty")
	case c.BasePath != "" && (!strings.HasPrefix(c.BasePath, "/") || strings.ContainsAny(c.BasePath, "?#%")):
		return invalid("BasePath", "not a path that begins with a slash")
	case c.Tolerance < 0:
		return invalid("Tolerance", "negative")
	case c.IDSpace < 0 || c.IDSpace >= 1_000_000_000_000:
		return invalid("IDSpace", "not a number of at most 12 digits")
	case c.LastOrder < 0:
		return invalid("LastOrder", "negative")
	case c.NotifyAttempts < 0:
		return invalid("NotifyAttempts", "negative")
	case c.MaxRecords < 0:
		return invalid("MaxRecords", "negative")
	case c.Repeated < RejectRepeated || c.Repeated > NewOrder:
		return invalid("Repeated", "not one of its constants")
	}
	c.Projects = append([]Project(nil), c.Projects...)
	known := map[int64]bool{}
	for i := range c.Projects {
		if err := c.Projects[i].complete(c.Scheme, known); err != nil {
			return fmt.Errorf("project %d of Projects: %w", i+1, err)
		}
	}
	c.BasePath = strings.TrimRight(c.BasePath, "/")
	c.NotifyAttempts = cmp.Or(c.NotifyAttempts, 3)
	c.MaxRecords = cmp.Or(c.MaxRecords, defaultMaxRecords)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	numbers := map[paymentsvc.StatusName]Numbers{
		paymentsvc.StatusPending: {1, 10},
		paymentsvc.StatusSuccess: {2, 20},
		paymentsvc.StatusFailure: {3, 30},
	}
	maps.Copy(numbers, c.Numbers)
	c.Numbers = numbers
	return c.completeErrors()
}

func (c *Config) completeErrors() error {
	c.Pages = cmp.Or(c.Pages, "https://pay.example/")
	c.ErrorCode = cmp.Or(c.ErrorCode, "error_code")
	c.ErrorMessage = cmp.Or(c.ErrorMessage, "error_message")
	if c.ErrorCode == c.ErrorMessage ||
		strings.HasPrefix(c.ErrorCode, c.ErrorMessage+".") || strings.HasPrefix(c.ErrorMessage, c.ErrorCode+".") {
		return invalid("ErrorCode and ErrorMessage", "one is inside the other")
	}
	answers := map[Problem]ErrorAnswer{}
	for problem, status := range defaultStatuses() {
		answers[problem] = ErrorAnswer{HTTPStatus: status, Code: json.RawMessage(`"` + problem + `"`)}
	}
	for problem, answer := range c.Errors {
		switch {
		case answers[problem].HTTPStatus == 0:
			return invalid("Errors", "no such Problem")
		case !validStatus(answer.HTTPStatus):
			return invalid("Errors: HTTPStatus", "not from 200 to 599")
		case !json.Valid(answer.Code):
			return invalid("Errors: Code", "not JSON")
		}
		answers[problem] = answer
	}
	c.Errors = answers
	return nil
}

func (p *Project) complete(scheme paymentsvc.Scheme, known map[int64]bool) error {
	switch {
	case p.ID == 0:
		return invalid("ID", "not set")
	case known[p.ID]:
		return invalid("ID", "duplicate")
	case p.OldSecret == p.Secret && p.Secret != "":
		return invalid("OldSecret", "the same as Secret")
	}
	known[p.ID] = true
	// The root package has the rules for schemes and secrets.
	if _, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: p.Secret}); err != nil {
		return err
	}
	p.Currency = cmp.Or(p.Currency, "XTS")
	return nil
}

// invalid returns an error about a field of Config.
func invalid(field, problem string) error {
	return fmt.Errorf("%w: %s: %s", paymentsvc.ErrInvalidRequest, field, problem)
}
