package journal_test

import (
	"fmt"

	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// The cost of a namespace limit for a write: to new entries, and to entries that upstream is known to
// hold.
func BenchmarkAppendWithinALimit(b *testing.B) {
	for _, limited := range []bool{false, true} {
		for _, known := range []string{"new", "copies", "rows"} {
			for _, writers := range []int{1, 64} {
				b.Run(fmt.Sprintf("limit=%t/%s/%d writers", limited, known, writers), func(b *testing.B) {
					appendWithin(b, limited, known, writers)
				})
			}
		}
	}
}

const benchKeys = 20_000

func appendWithin(b *testing.B, isLimited bool, known string, writers int) {
	opts := journal.Options{Dir: dir, FS: vfs.NewMem()} // in memory, to leave out the machine's disk
	if isLimited {
		opts.Sizes, _ = limited(1 << 40)
	}
	j, err := journal.Open(opts)
	no(b, err)
	b.Cleanup(func() { no(b, j.Close()) })
	no(b, j.Run(b.Context()))
	switch known {
	case "copies":
		together(64, func(w int) {
			for i := w; i < benchKeys; i += 64 {
				_, err := j.Fill(key("%d", i), observed(benchValue), always)
				if err != nil {
					b.Error(err)
				}
			}
		})
	case "rows":
		rows := make([]journal.Row, benchKeys)
		for i := range rows {
			rows[i] = journal.Row{Key: fmt.Sprint(i), ListBytes: 200, UpdatedAt: 1}
		}
		list(b, j, false, rows...)
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	together(writers, func(int) {
		for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
			w := journal.NewWrite{ID: key("%d", n), Op: journal.Put, Value: benchValue, ListBytes: len(benchValue)}
			if _, err := j.Append(w); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
