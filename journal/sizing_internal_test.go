package journal

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A write goes by what has settled of its entry, also if that changes between the look at it
// and the write's place in the order.
func TestAWriteCountsWhatHasSettledMeanwhile(t *testing.T) {
	id := ID{Namespace: "ns", Key: "k"}
	for name, meanwhile := range map[string]func(*Journal) error{
		"a write settles": func(j *Journal) error {
			w, err := j.Append(NewWrite{ID: id, Op: Put, Value: strings.Repeat("v", 70), ListBytes: 70})
			if err == nil {
				err = j.Settle(w)
			}
			return err
		},
		"a delete settles": func(j *Journal) error {
			w, err := j.Append(NewWrite{ID: id, Op: Delete})
			if err == nil {
				err = j.Settle(w)
			}
			return err
		},
		"an answer": func(j *Journal) error {
			_, err := j.Fill(id, &Observation{Value: "v", ListBytes: 1}, func() bool { return true })
			return err
		},
		"a listing": func(j *Journal) error {
			return j.BeginListing("ns").Commit([]Row{{Key: "k", ListBytes: 30, UpdatedAt: 1}}, true)
		},
		"a listing without it": func(j *Journal) error { return j.BeginListing("ns").Commit(nil, true) },
	} {
		t.Run(name, func(t *testing.T) {
			sizes := NewSizes(SizesOptions{Limit: func(string) int64 { return 100 }, Logger: slog.New(slog.DiscardHandler)})
			j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Sizes: sizes})
			fatal(t, err)
			defer func() { fatal(t, j.Close()) }()
			fatal(t, j.Run(context.Background()))
			_, err = j.Fill(id, &Observation{Value: strings.Repeat("v", 50), ListBytes: 50}, func() bool { return true })
			fatal(t, err)
			a := &appending{
				set: j.pending, NewWrite: NewWrite{ID: id, Op: Put, Value: strings.Repeat("w", 100), ListBytes: 100}, unlock: func() {},
			}
			fatal(t, j.pending.measurer.measure(a))
			fatal(t, meanwhile(j))
			fatal(t, j.store.Update(a))
			if got := sizes.Of("ns").Bytes; got != 100 {
				t.Errorf("the namespace holds %d bytes, want 100", got)
			}
		})
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
