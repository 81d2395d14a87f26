package journal

import (
	"bytes"
	"errors"
	"testing"
)

// decoded checks what holds for all decoders: they fail with ErrCorrupt, and what they
// take is what was encoded.
func decoded(t *testing.T, body []byte, err error, encode func() []byte) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("error is %v", err)
		}
		return
	}
	again := encode()
	if len(again) > len(body) { // a varint can be longer than need be, never shorter
		t.Errorf("%x was encoded anew as %x", body, again)
	}
}

func FuzzPendingRecord(f *testing.F) {
	f.Add(appendPending(nil, &version{op: Put, updatedAt: 1.5, since: 1, createdAt: 1, listBytes: 7, afterDelete: true}, `"value"`))
	f.Add(appendPending(nil, &version{op: Delete, updatedAt: 2}, ""))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, value, err := decodePending(body)
		decoded(t, body, err, func() []byte {
			again := appendPending(nil, &v, string(value))
			w, same, err := decodePending(again)
			if err != nil || !bytes.Equal(value, same) || w.op != v.op || w.listBytes != v.listBytes || w.afterDelete != v.afterDelete {
				t.Errorf("%+v became %+v, %v", v, w, err)
			}
			return again
		})
	})
}

func FuzzDeadLetter(f *testing.F) {
	f.Add(appendDead(nil, ID{"ns", "key"}, &version{op: Put, updatedAt: 1}, "value", 422, "bad", 3))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := decodeDead(7, body)
		decoded(t, body, err, func() []byte {
			v := version{op: l.Op, updatedAt: l.UpdatedAt, listBytes: int32(l.ListBytes)}
			again := appendDead(nil, l.ID, &v, l.Value, l.Status, l.Error, l.RefusedAt)
			if same, err := decodeDead(7, again); err != nil || same.Value != l.Value || same.ID != l.ID || same.Error != l.Error {
				t.Errorf("%+v became %+v, %v", l, same, err)
			}
			return again
		})
	})
}

func FuzzOtherRecords(f *testing.F) {
	f.Add(appendSettled(nil, Observation{Value: "v", ListBytes: 1, CreatedAt: 1, UpdatedAt: 2}, 3))
	f.Add(appendRow(nil, Row{ListBytes: 3, UpdatedAt: 4}))
	f.Add(appendHeader(nil, header{5, 6, true}))
	f.Add(appendTotals(nil, &totals{1, 2, 3, 4, 5, 6, 7}))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, at, err := decodeSettled(body)
		decoded(t, body, err, func() []byte { return appendSettled(nil, o, at) })
		row, err := decodeRow("key", body)
		decoded(t, body, err, func() []byte { return appendRow(nil, row) })
		h, err := decodeHeader(body)
		decoded(t, body, err, func() []byte { return appendHeader(nil, h) })
		sums, err := decodeTotals(body)
		decoded(t, body, err, func() []byte {
			again := appendTotals(nil, &sums)
			if sums.batches == 0 { // format 1 has no such field
				again = again[:len(again)-1]
			}
			return again
		})
	})
}

func FuzzKeys(f *testing.F) {
	f.Add("ns", "key", uint64(47), []byte("x"))
	f.Add("", "", ^uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, namespace, name string, seq uint64, raw []byte) {
		for _, prefix := range []string{pendingPrefix, deadPrefix, sentPrefix} {
			key := append([]byte(prefix), raw...)
			_, _, _ = parsePendingKey(key)
			_, _ = parseDeadKey(key)
			_, _ = parseEntryKey(prefix, key)
		}
		body, err := unseal([]byte(name), seal([]byte(name), bytes.Clone(raw)))
		if err != nil || !bytes.Equal(body, raw) {
			t.Errorf("%x became %x, %v", raw, body, err)
		}
		if _, err := unseal([]byte(name), raw); err == nil && len(raw) > 64 {
			t.Errorf("%x passes for a sealed record", raw)
		}
		id := ID{namespace, name}
		if bytes.ContainsRune([]byte(namespace), '/') {
			return
		}
		if got, n, err := parsePendingKey(pendingKey(id, seq)); err != nil || got != id || n != seq {
			t.Errorf("%v, %d became %v, %d, %v", id, seq, got, n, err)
		}
		if got, err := parseDeadKey(deadKey(seq)); err != nil || got != seq {
			t.Errorf("%d became %d, %v", seq, got, err)
		}
	})
}
