package discover

import (
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Progress tells how far a search is.
type Progress struct {
	// Tried counts the compositions so far, Total those that will be tried at most.
	Tried, Total int64
	// Elapsed is the time since Find began.
	Elapsed time.Duration
	// What is the family of compositions that is being tried.
	What string
}

// Result is what [Find] found.
type Result struct {
	// Matches explain all samples, the simplest first.
	Matches []Match
	// More counts the matches beyond [Options.MaxMatches].
	More int
	// Undecided lists what the samples cannot tell apart in the first match.
	Undecided []Undecided
	// Partial explains some samples but not all; it is empty if there is a match.
	Partial []Match
	// Tried counts the compositions that were tried. Each is a text under one reading of the secret, and represents all
	// encodings and for all parts that make the same text.
	Tried int64
	// Elapsed is how long it took.
	Elapsed time.Duration
	// Covered lists what was searched.
	Covered []Coverage
	// Hints says what to check next if nothing was found, the likeliest first.
	Hints []string
}

// Match is a composition that explains samples.
type Match struct {
	// Text is the scheme and the form of the secret in one line, as [canonical.ParseSchemeWith] reads it.
	Text string
	// Scheme is ready to use, with Secret. JSON leaves it out, since it is functions.
	Scheme paymentsvc.Scheme `json:"-"`
	// Secret is [Options.Secret] read in SecretForm, as the scheme needs it.
	Secret     paymentsvc.Secret
	SecretForm canonical.SecretForm
	// Expr is the Go expression of Scheme, and SecretExpr that of Secret. They call the secret itself secret, a
	// variable of type paymentsvc.Secret. SecretExpr also returns an error, unless SecretForm is canonical.SecretText.
	Expr, SecretExpr string
	// Imports are the packages that Expr and SecretExpr need, sorted.
	Imports []string
	// Description says the same in words.
	Description string
	// Warnings says, in one sentence each, what the scheme lets somebody change in a recorded message that they cannot
	// sign: parts of its text run into each other, so that it fits another message too, or something is not signed.
	Warnings []string
	// Samples names the samples that the match explains: all, in [Result.Matches].
	Samples []string
}

// Undecided is a place in a match where other parts make the same text of every sample.
type Undecided struct {
	// Chosen is the Go expression in the first match; Others would fit as well.
	Chosen string
	Others []Alternative
}

// Alternative is a Go expression that makes the same text of every sample as another one.
type Alternative struct {
	// Expr is the Go expression.
	Expr string
	// Needs describes a sample that would decide between the two.
	Needs string
}

// Coverage is a family of compositions that [Find] knows.
type Coverage struct {
	// What says which parts are combined.
	What string
	// MaxParts is the length of its longest compositions; 0 if Options.Effort leaves no room for any.
	MaxParts int
	// Compositions counts them for all samples, and Done reports whether all were tried with one of them.
	Compositions int64
	Done         bool
}
