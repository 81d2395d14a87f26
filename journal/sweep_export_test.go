//go:build sweep

package journal

import (
	"context"

	"github.com/botwired/botwired/journal/internal/record"
)

// CompactTables makes Pebble merge all its tables.
func (j *Journal) CompactTables(ctx context.Context) error {
	if err := j.RotateLog(); err != nil {
		return err
	}
	for _, prefix := range []string{
		record.LeftPrefix, record.DeadPrefix, record.HeaderPrefix, record.RowPrefix, "m/", record.PendingPrefix, record.ReceiptPrefix, record.SettledPrefix,
	} {
		if err := j.store.Compact(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}
