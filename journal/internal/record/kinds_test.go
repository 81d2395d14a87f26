package record_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/botwired/botwired/journal/internal/record"
)

// The keys of a kind lie together, and the kinds are in the order of their keys.
func TestKinds(t *testing.T) {
	var end []byte
	for _, k := range record.Kinds {
		from, to := k.Bounds()
		if bytes.Compare(from, end) < 0 || bytes.Compare(from, to) >= 0 {
			t.Errorf("%q: from %q to %q, after %q", k.Prefix, from, to, end)
		}
		end = to
	}
}

func TestNameOf(t *testing.T) {
	id := record.ID{Namespace: "ns", Key: "a b"}
	for _, row := range []struct {
		key  []byte
		name string
	}{
		{record.AppendPendingKey(nil, id, 7), "pending write 7 to ns/a b"},
		{record.VersionKey(id, 7), "version 7 of ns/a b"},
		{record.LossKey(id, 7), "the loss of version 7 of ns/a b"},
		{record.DeadKey(7), "dead letter 7"},
		{record.ReceiptKey(3, 7), "receipt of write 7"},
		{record.EntryKey(record.SettledPrefix, id), "settled copy of ns/a b"},
		{record.EntryKey(record.LeftPrefix, id), "what was sent of ns/a b"},
		{record.HeaderKey("ns"), "listing of ns"},
		{record.SendingKey, "when something was last sent"},
		{record.GenerationsKey, "the generations of receipts"},
		{record.RequestKey(3, [16]byte{1}), `record "r/\x00\x00\x00\x00\x00\x00\x00\x03\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"`},
		{[]byte("v/ns"), `record "v/ns"`},
		{[]byte("?"), `record "?"`},
	} {
		if got := record.NameOf(row.key); got != row.name {
			t.Errorf("%q is %q, want %q", row.key, got, row.name)
		}
	}
}

// A purge looks for an entry's records of each kind whose keys name entries, and only there.
func TestKindOf(t *testing.T) {
	one, more := record.ID{Namespace: "ns", Key: "a"}, record.ID{Namespace: "ns", Key: "a/b"}
	for _, k := range record.Kinds {
		from, to, ok := k.Of(one)
		if ok != (k.Keyed <= record.ByEntry) {
			t.Errorf("%q: %v", k.Prefix, ok)
		}
		if !ok {
			continue
		}
		key := func(id record.ID) []byte {
			if k.Keyed == record.ByVersion {
				return append(append(record.EntryKey(k.Prefix, id), '/'), make([]byte, 8)...)
			}
			return record.EntryKey(k.Prefix, id)
		}
		all, end, _ := k.Of(record.ID{Namespace: "ns"})
		for _, id := range []record.ID{one, more} {
			in := func(from, to []byte) bool { return bytes.Compare(from, key(id)) <= 0 && bytes.Compare(key(id), to) < 0 }
			if record.KindOf(key(id)) != k || !in(all, end) || id == one && !in(from, to) {
				t.Errorf("%q: the key %q is not found", k.Prefix, key(id))
			}
		}
		if _, err := k.Check(key(one), nil); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%q: an empty body: %v", k.Prefix, err)
		}
	}
}
