package doctor

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

const (
	// syncSize is the length of each write that is made durable, in bytes.
	syncSize = 4 << 10
	// mostSyncs bounds how many writes are measured.
	mostSyncs = 100
)

// Syncs measures how long a disk takes to make a small write durable, in a file of its own
// in dir that it removes again. The file's name begins with prefix. It measures for as long
// as the limit says, at least once, and returns the times in ascending order. The file has
// its length before, as a log has.
func Syncs(ctx context.Context, dir, prefix string, limit time.Duration) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, prefix+"*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, syncSize)
	for i := range int64(mostSyncs) {
		if _, err := f.WriteAt(block, i*syncSize); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	end := time.Now().Add(limit)
	for i := int64(0); i < mostSyncs && ctx.Err() == nil && (i == 0 || time.Now().Before(end)); i++ {
		block[0] = byte(i + 1)
		began := time.Now()
		if _, err := f.WriteAt(block, i*syncSize); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, ctx.Err()
}

// Quantile returns the value of sorted times below which a share of them lies.
func Quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
