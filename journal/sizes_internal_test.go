package journal

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Other writes may fill the namespace between a write's size check and its place in the order. Then the
// write is checked again in order; it is accepted if it does not make the namespace larger.
func TestAWriteIsJudgedInTheOrder(t *testing.T) {
	for key, taken := range map[string]bool{"new": false, "known": true} {
		sizes := NewSizes(SizesOptions{Limit: func(string) int64 { return 100 }, Logger: slog.New(slog.DiscardHandler)})
		j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Sizes: sizes})
		fatal(t, err)
		defer func() { fatal(t, j.Close()) }()
		fatal(t, j.Run(t.Context()))
		put := func(key string, bytes int) NewWrite {
			return NewWrite{ID: ID{Namespace: "ns", Key: key}, Op: Put, Value: "v", ListBytes: bytes}
		}
		w, err := j.Append(put("known", 10))
		fatal(t, err)
		fatal(t, j.Settle(w))
		a := &appending{copies: j.copies, NewWrite: put(key, 10), unlock: func() {}}
		fatal(t, j.copies.prepare(a))
		_, err = j.Append(put("other", 85))
		fatal(t, err)
		err = j.store.Update(a)
		if _, full := errors.AsType[*NamespaceFullError](err); full == taken || taken && err != nil {
			t.Errorf("a write to a %s entry: %v, want it taken: %t", key, err, taken)
		}
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
