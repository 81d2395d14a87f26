//go:build sweep

package journal

import "context"

// CompactTables has Pebble merge all its tables.
func (j *Journal) CompactTables(ctx context.Context) error {
	if err := j.RotateLog(); err != nil {
		return err
	}
	return j.catch(func() error { return j.db.Compact(ctx, []byte("a"), []byte("z"), false) })
}
