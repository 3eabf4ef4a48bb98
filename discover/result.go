package discover

import (
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Progress is the state of a search.
type Progress struct {
	// Tried counts the compositions so far. Total is the maximum.
	Tried, Total int64
	// Elapsed is the time since Find began.
	Elapsed time.Duration
	// What describes the current family of compositions.
	What string
}

// Result is the result of [Find].
type Result struct {
	// Matches explain all samples, the simplest first.
	Matches []Match
	// More counts the matches beyond [Options.MaxMatches].
	More int
	// Undecided lists the alternatives to the first match that fit the samples equally well.
	Undecided []Undecided
	// Partial explains some of the samples. It is empty if Matches is not.
	Partial []Match
	// Tried counts the tried compositions. Each is one text with one reading of the secret. It represents all encodings
	// and all parts with the same text.
	Tried int64
	// Elapsed is the duration of the call.
	Elapsed time.Duration
	// Covered lists the searched families.
	Covered []Coverage
	// Hints lists the next checks after a search without a match, the most useful first.
	Hints []string
}

// Match is a composition with the signatures of the samples.
type Match struct {
	// Text is the scheme and the form of the secret in one line, for [canonical.ParseSchemeWith].
	Text string
	// Scheme is ready to use with Secret. JSON omits it, because it contains functions.
	Scheme paymentsvc.Scheme `json:"-"`
	// Secret is the key of the scheme: [Options.Secret] in the form SecretForm.
	Secret     paymentsvc.Secret
	SecretForm canonical.SecretForm
	// Expr is the Go expression of Scheme, and SecretExpr is the expression of Secret. Both use a variable secret of
	// type paymentsvc.Secret. SecretExpr also returns an error, unless SecretForm is canonical.SecretText.
	Expr, SecretExpr string
	// Imports are the sorted packages of Expr and SecretExpr.
	Imports []string
	// Description describes the scheme in words.
	Description string
	// Warnings has a sentence for each weakness of the scheme. Either two parts of the text run into each other, so a
	// recorded signature fits another message, or some part of the message is unsigned.
	Warnings []string
	// Samples names the explained samples. In [Result.Matches] these are all samples.
	Samples []string
}

// Undecided is a part of a match with alternatives: their texts are equal in every sample.
type Undecided struct {
	// Chosen is the Go expression in the first match. Others fit equally well.
	Chosen string
	Others []Alternative
}

// Alternative is a Go expression with the same text in every sample as Undecided.Chosen.
type Alternative struct {
	// Expr is the Go expression.
	Expr string
	// Needs describes a sample that decides between the two.
	Needs string
}

// Coverage is a family of compositions.
type Coverage struct {
	// What describes the combined parts.
	What string
	// MaxParts is the length of the longest compositions, or 0 if Options.Effort is too small for the family.
	MaxParts int
	// Compositions counts the compositions for all samples. Done reports whether one sample was tried with all of them.
	Compositions int64
	Done         bool
}
