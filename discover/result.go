package discover

import (
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Progress is how far a search is.
type Progress struct {
	// Tried counts the compositions so far, Total those that are tried before Find gives up.
	Tried, Total int64
	// Elapsed is the time since Find began.
	Elapsed time.Duration
	// What is the family of compositions that is being tried.
	What string
}

// Result is what Find found.
type Result struct {
	// Matches explain all samples, the simplest first.
	Matches []Match
	// More counts the further matches that Options.MaxMatches left out.
	More int
	// Undecided lists what the samples cannot tell apart in the first match.
	Undecided []Undecided
	// Partial explains some samples and not the others; it is there only without a match.
	Partial []Match
	// Tried counts the compositions that were tried: different texts under different readings of the secret,
	// each in all encodings at once, and each standing for all parts that make the same text.
	Tried int64
	// Elapsed is how long it took.
	Elapsed time.Duration
	// Covered lists what was searched.
	Covered []Coverage
	// Hints says, in order, what to look at next when nothing was found.
	Hints []string
}

// Match is a composition that explains samples.
type Match struct {
	// Scheme is ready to use, with Secret. It is functions, which no JSON can hold.
	Scheme paymentsvc.Scheme `json:"-"`
	// Secret is Options.Secret as the scheme needs it, read in SecretForm.
	Secret     paymentsvc.Secret
	SecretForm canonical.SecretForm
	// Expr is the Go expression of Scheme, and SecretExpr that of Secret. Where they need the secret itself,
	// they call it secret, a variable of type paymentsvc.Secret. SecretExpr gives an error too, unless
	// SecretForm is SecretText.
	Expr, SecretExpr string
	// Imports are the packages of Expr and SecretExpr, sorted.
	Imports []string
	// Description says the same in words.
	Description string
	// Samples names the samples that the match explains; in Result.Matches, all.
	Samples []string
}

// Undecided is a place in a match where other parts make the same text of every sample.
type Undecided struct {
	// Chosen is the Go expression in the first match, and Others are what would do as well.
	Chosen string
	Others []Alternative
}

// Alternative is a Go expression that makes the same text of every sample as another one.
type Alternative struct {
	// Expr is the Go expression.
	Expr string
	// Needs says which further sample would decide between the two.
	Needs string
}

// Coverage is a family of compositions that Find knows.
type Coverage struct {
	// What says which parts are combined.
	What string
	// MaxParts is how many parts the longest of them have; 0 where Options.Effort leaves no room for any.
	MaxParts int
	// Compositions counts them, and Done reports whether they were all tried.
	Compositions int64
	Done         bool
}
