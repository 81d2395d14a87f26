package journal

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// BenchmarkReceipt measures the cost of a receipt in the batch that removes a write from the pending
// set, in addition to the settled copy in the same batch.
func BenchmarkReceipt(b *testing.B) {
	for _, leaves := range []bool{false, true} {
		b.Run(fmt.Sprintf("leaves=%t", leaves), func(b *testing.B) {
			j, err := Open(Options{Dir: "/journal", FS: vfs.NewMem()}) // in memory, to leave out the machine's disk
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := j.Close(); err != nil {
					b.Error(err)
				}
			})
			if err := j.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			copied := &Observation{Value: strings.Repeat("v", 200), ListBytes: 200, CreatedAt: 1, UpdatedAt: 1}
			var seq atomic.Uint64
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := seq.Add(1)
					id := ID{Namespace: "agent", Key: fmt.Sprint(n % 1000)}
					err := j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
						key := record.EntryKey(record.SettledPrefix, id)
						tx.SetVersion(id, n, &record.Version{Op: record.Put, At: 1, ListBytes: 200, Value: copied.Value})
						tx.Set(key, record.EncodeSettled(key, copied, 1, n))
						if leaves {
							receipt := record.ReceiptKey(0, n)
							tx.Set(receipt, record.EncodeReceipt(receipt, &record.Receipt{
								ID: id, Seq: n, Op: record.Put, State: ReceiptSettled, WrittenAt: 1, SettledAt: 2,
							}))
						}
						return nil
					}))
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
