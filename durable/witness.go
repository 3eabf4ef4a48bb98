package durable

import (
	"context"

	"github.com/paymentsvc/paymentsvc/durable/internal/recognize"
)

// Witness stores a mark outside the database. The mark shows whether the database is an older copy, because each claim
// raises it in both places before its call begins. Use one witness per database, and never restore it together with the
// database. Its methods are called concurrently, also by several processes, and must return when ctx ends.
//
// A round of claims waits for one Load and one Save. While Save fails, no payout is sent.
type Witness interface {
	// Load returns the highest saved mark, or 0 before the first Save.
	Load(ctx context.Context) (mark int64, err error)

	// Save stores mark durably before it returns. If a higher mark is stored, Save keeps that mark and returns nil.
	Save(ctx context.Context, mark int64) error
}

// FileWitness returns a [Witness] in a file, which all processes on one machine may share. The file must be on a local
// disk, and on another volume than the database: a snapshot of both restores both.
func FileWitness(path string) Witness { return recognize.File(path) }
