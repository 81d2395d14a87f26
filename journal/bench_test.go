package journal_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/botwired/botwired/journal"
)

// onDisk opens a journal on the real disk.
func onDisk(b *testing.B) *journal.Journal {
	b.Helper()
	j, err := journal.Open(journal.Options{Dir: b.TempDir(), DiskReserve: 1})
	no(b, err)
	b.Cleanup(func() { no(b, j.Close()) })
	no(b, j.Run(b.Context()))
	return j
}

var benchValue = strings.Repeat("v", 200)

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers, " writers"), func(b *testing.B) {
			j := onDisk(b)
			ids := make([]journal.ID, 1000)
			for i := range ids {
				ids[i] = key("%d", i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			together(writers, func(int) {
				for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
					_, err := j.Append(journal.NewWrite{ID: ids[n%1000], Op: journal.Put, Value: benchValue})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	j := onDisk(b)
	put(b, j, key("settled"), benchValue)
	settle(b, j, key("settled"))
	put(b, j, key("pending"), benchValue)
	for _, id := range []journal.ID{key("pending"), key("settled"), key("unknown")} {
		b.Run(id.Key, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := j.Lookup(id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
