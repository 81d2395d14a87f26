//go:build sweep

package journal

import "context"

// RotateLog has Pebble begin a new log and table, as a write does that finds the old
// ones full, and returns when the table is written.
func (j *Journal) RotateLog() error {
	written, err := j.rotateLog()
	if err != nil {
		return err
	}
	<-written
	return nil
}

func (j *Journal) rotateLog() (written <-chan struct{}, err error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	err = j.guard(func() (err error) {
		written, err = j.db.AsyncFlush()
		return err
	})
	return written, err
}

// CompactTables has Pebble merge all its tables.
func (j *Journal) CompactTables(ctx context.Context) error {
	if err := j.RotateLog(); err != nil {
		return err
	}
	return j.db.Compact(ctx, []byte("a"), []byte("z"), false)
}
