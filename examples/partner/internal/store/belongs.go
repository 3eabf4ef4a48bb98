package store

import (
	"context"
	"fmt"
)

// BelongTo says which project of which service the calls go to, and refuses a database whose rows another one knows:
// orders that were started there would be asked for here, not be found, and be started again.
func (s *Store) BelongTo(ctx context.Context, service string) error {
	if _, err := s.db.ExecContext(ctx, `INSERT INTO belongs_to (one, service) VALUES (1, $1) ON CONFLICT (one) DO NOTHING`,
		service); err != nil {
		return err
	}
	var first string
	if err := s.db.QueryRowContext(ctx, `SELECT service FROM belongs_to WHERE one = 1`).Scan(&first); err != nil {
		return err
	}
	if first != service {
		return fmt.Errorf("store: this database belongs to %s and not to %s: take another one, or, if that is the same "+
			"service under another address, change the row of the table belongs_to", first, service)
	}
	return nil
}
