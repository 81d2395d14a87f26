package journal_test

import (
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// BenchmarkSettle measures a write until it is settled, 2,000 writes later. Of the entries, each is
// written once, or they are few and written over and over. It reports the bytes that Pebble writes into
// logs and tables, and the CPU time of the process.
func BenchmarkSettle(b *testing.B) {
	const lag, together64 = 2000, 64
	for _, size := range []int{200, 2000, 20_000} {
		for name, keys := range map[string]int{"distinct": math.MaxInt, "hot": lag} {
			b.Run(fmt.Sprintf("%d bytes, %s", size, name), func(b *testing.B) {
				j := onDisk(b)
				value := noise(size)
				waiting := make([]journal.Write, lag)
				written, spent := writtenBytes(j), cpuTime(b)
				b.ResetTimer()
				together(together64, func(g int) {
					for n := g; n < b.N; n += together64 {
						if w := waiting[n%lag]; w.Seq != 0 {
							if err := j.Settle(w); err != nil {
								b.Error(err)
								return
							}
						}
						id := journal.ID{Namespace: fmt.Sprint("agent-", n%100), Key: fmt.Sprint("item-", n%keys)}
						w, err := j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: value})
						if err != nil {
							b.Error(err)
							return
						}
						waiting[n%lag] = w
					}
				})
				b.StopTimer()
				b.ReportMetric(float64(writtenBytes(j)-written)/float64(b.N), "disk-B/op")
				b.ReportMetric(float64((cpuTime(b)-spent).Microseconds())/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

// writtenBytes returns how many bytes Pebble has written into logs and tables.
func writtenBytes(j *journal.Journal) uint64 {
	m := j.DB().Metrics()
	total := m.Total()
	return m.WAL.BytesWritten + total.TableBytesFlushed + total.TableBytesCompacted
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	no(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
