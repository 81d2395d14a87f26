package record_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/botwired/botwired/journal/internal/record"
)

// body returns a sealed record without its checksum.
func body(t testing.TB, key, sealed []byte) []byte {
	t.Helper()
	b, err := record.Unseal(key, sealed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decoded checks that a decoder fails only with ErrCorrupt, and that encoding the result gives the body
// again.
func decoded(t *testing.T, body []byte, err error, encode func() []byte) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("error is %v", err)
		}
		return
	}
	again := encode()
	if len(again) > len(body) { // a varint can be longer than necessary, never shorter
		t.Errorf("%x was encoded anew as %x", body, again)
	}
}

func pendingBody(t testing.TB, v *record.Pending, over *record.Base) []byte {
	t.Helper()
	key := []byte("key")
	return body(t, key, record.EncodePending(nil, key, v, over))
}

func FuzzPendingRecord(f *testing.F) {
	f.Add(pendingBody(f, &record.Pending{Op: record.Put, UpdatedAt: 1.5, Since: 1, CreatedAt: 1, Bytes: 9, ListBytes: 7, AfterDelete: true}, nil))
	f.Add(pendingBody(f, &record.Pending{Op: record.Delete, UpdatedAt: 2}, nil))
	f.Add(pendingBody(f, &record.Pending{Op: record.Put, UpdatedAt: 2, WrittenAt: 2, Fenced: true}, nil))
	f.Add(pendingBody(f, &record.Pending{Op: record.Put, UpdatedAt: 2, WrittenAt: 1, LosesTies: true}, nil))
	f.Add(pendingBody(f, &record.Pending{Op: record.Put, UpdatedAt: 2, WrittenAt: 1, Conditional: true}, &record.Base{Known: true, UpdatedAt: 3}))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, over, err := record.DecodePending(body)
		decoded(t, body, err, func() []byte {
			again := pendingBody(t, &v, over)
			w, _, err := record.DecodePending(again)
			if err != nil || w.Bytes != v.Bytes || w.Op != v.Op || w.ListBytes != v.ListBytes ||
				w.AfterDelete != v.AfterDelete || w.LosesTies != v.LosesTies || w.Fenced != v.Fenced || w.Conditional != v.Conditional || w.WrittenAt != v.WrittenAt && v.WrittenAt == v.WrittenAt {
				t.Errorf("%+v became %+v, %v", v, w, err)
			}
			return again
		})
	})
}

// The record of a pending write is stored under its key, with the checksum that the version keeps.
func TestPendingRecord(t *testing.T) {
	id := record.ID{Namespace: "ns", Key: "key"}
	v := record.Pending{Seq: 7, Op: record.Put, UpdatedAt: 3, Since: 2, CreatedAt: 1, Bytes: 5, ListBytes: 5}
	key := record.AppendPendingKey(nil, id, 7)
	sealed := record.EncodePending(nil, key, &v, nil)
	gotID, got, err := record.ReadPending(key, body(t, key, sealed), record.Sum(sealed))
	if err != nil || gotID != id || got != v {
		t.Errorf("%v, %+v, %v; want %+v", gotID, got, err, v)
	}
}

func FuzzDeadLetter(f *testing.F) {
	key := record.DeadKey(7)
	sealed := record.EncodeDead(key, &record.Dead{
		ID: record.ID{Namespace: "ns", Key: "key"}, Pending: record.Pending{Op: record.Put, UpdatedAt: 1},
		Value: "value", Kind: record.Dropped, SupersededBy: 300, Status: 422, Error: "bad", RefusedAt: 3,
	})
	f.Add(sealed[:len(sealed)-4])
	sealed = record.EncodeDead(key, &record.Dead{
		ID: record.ID{Namespace: "ns", Key: "key"}, Pending: record.Pending{Op: record.Put, UpdatedAt: 1},
		Value: "value", Author: "someone",
	})
	f.Add(sealed[:len(sealed)-4])
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := record.DecodeDead(7, raw)
		if l.Conflict != nil {
			return // nothing writes it any more
		}
		decoded(t, raw, err, func() []byte {
			again := body(t, key, record.EncodeDead(key, &l))
			same, err := record.DecodeDead(7, again)
			if err != nil || same.Value != l.Value || same.Author != l.Author || same.ID != l.ID || same.Error != l.Error || same.Kind != l.Kind ||
				same.SupersededBy != l.SupersededBy || same.Status != l.Status {
				t.Errorf("%+v became %+v, %v", l, same, err)
			}
			return again
		})
	})
}

func FuzzReceipt(f *testing.F) {
	key := record.ReceiptKey(3, 7)
	for _, r := range []record.Receipt{
		{ID: record.ID{Namespace: "ns", Key: "key"}, Op: record.Put, State: record.ReceiptSuperseded, WrittenAt: 1, SettledAt: 2, By: 300},
		{Op: record.Delete, State: record.ReceiptDead, Reason: "too big"},
	} {
		sealed := record.EncodeReceipt(key, &r)
		f.Add(sealed[:len(sealed)-4])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := record.DecodeReceipt(7, raw)
		decoded(t, raw, err, func() []byte {
			again := body(t, key, record.EncodeReceipt(key, &r))
			same, err := record.DecodeReceipt(7, again)
			if err != nil || same.ID != r.ID || same.Seq != 7 || same.Op != r.Op || same.State != r.State || same.By != r.By || same.Reason != r.Reason {
				t.Errorf("%+v became %+v, %v", r, same, err)
			}
			return again
		})
	})
}

func sealedVersion(key []byte, v *record.Version) []byte {
	fields := record.AppendVersionFields(nil, v)
	sealed := make([]byte, record.VersionSize(fields, v.Value))
	record.EncodeVersion(sealed, key, fields, v.Value)
	return sealed
}

func FuzzOtherRecords(f *testing.F) {
	key := []byte("key")
	add := func(sealed []byte) { f.Add(sealed[:len(sealed)-4]) }
	add(record.EncodeSettled(key, &record.Observation{Value: "v", ListBytes: 1, CreatedAt: 1, UpdatedAt: 2}, 3, 1))
	add(record.EncodeSettled(key, &record.Observation{Value: "v", ListBytes: 1, Origin: record.Origin{Seq: 300, At: 4}}, 3, 300))
	add(sealedVersion(key, &record.Version{Op: record.Put, Shown: true, At: 5, Author: "someone", Host: "h", ListBytes: 7, Value: "v"}))
	add(sealedVersion(key, &record.Version{Op: record.Delete, At: 5}))
	add(record.EncodeRow(key, record.Row{ListBytes: 3, UpdatedAt: 4}))
	add(record.EncodeRow(key, record.Row{ListBytes: 3, UpdatedAt: 4, Origin: record.Origin{Seq: 1}}))
	add(record.EncodeRow(key, record.Row{ListBytes: 3, UpdatedAt: 4, Origin: record.Origin{At: 4}}))
	add(record.EncodeRow(key, record.Row{ListBytes: 3, UpdatedAt: 4, Origin: record.Origin{Seq: 2, After: 4}}))
	add(record.EncodeLeft(key, nil))
	add(record.EncodeSending(record.Sending{Boot: "b", At: 300}))
	add(record.EncodeLeft(key, []record.Content{record.ContentOf(record.Put, "v"), record.ContentOf(record.Delete, "")}))
	add(record.EncodeHeader(key, record.Header{FetchedAt: 5, Newest: 6, Complete: true}))
	add(record.EncodeHeader(key, record.Header{FetchedAt: 5, Suspect: record.Suspect{Since: 7, Missing: 300, Of: 400}}))
	add(record.EncodeRequest(key, &record.Request{ID: record.ID{Namespace: "n", Key: "k"}, Op: record.Delete, Content: [8]byte{3}, Answer: "a"}, 300))
	add(record.EncodeRequest(key, &record.Request{ID: record.ID{Namespace: "n", Key: "k"}, Op: record.Delete, Refused: 404, Answer: "a"}, 0))
	add(record.EncodeGenerations(&record.Generations{BeganAt: 1, All: []record.Generation{{Number: 2, Receipts: 300}, {Number: 1 << 32}}}))
	add(record.EncodeLoss(key, &record.Loss{Gone: true, At: 1, Order: 300, Size: 2}))
	add(record.EncodeLoss(key, &record.Loss{Apart: true}))
	add(record.EncodeRetention(1, 300))
	add(record.EncodeTotals(&record.Totals{Seq: 1, Pending: 2, PendingBytes: 3, Sum: 4, Dead: 5, DeadBytes: 6, Batches: 7}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, at, version, err := record.DecodeSettled(raw)
		decoded(t, raw, err, func() []byte { return body(t, key, record.EncodeSettled(key, &o, at, version)) })
		stored, err := record.DecodeVersion(raw)
		decoded(t, raw, err, func() []byte { return body(t, key, sealedVersion(key, &stored)) })
		row, err := record.DecodeRow("key", raw)
		decoded(t, raw, err, func() []byte { return body(t, key, record.EncodeRow(key, row)) })
		left, err := record.DecodeLeft(raw)
		if len(raw) > 0 && raw[0] == 0 { // an older botwired has a number there
			decoded(t, raw, err, func() []byte { return body(t, key, record.EncodeLeft(key, left)) })
		}
		sending, err := record.DecodeSending(raw)
		decoded(t, raw, err, func() []byte { return body(t, record.SendingKey, record.EncodeSending(sending)) })
		h, err := record.DecodeHeader(raw)
		decoded(t, raw, err, func() []byte { return body(t, key, record.EncodeHeader(key, h)) })
		named, by, err := record.DecodeRequest(raw)
		decoded(t, raw, err, func() []byte { return body(t, key, record.EncodeRequest(key, &named, by)) })
		g, err := record.DecodeGenerations(raw)
		decoded(t, raw, err, func() []byte { return body(t, record.GenerationsKey, record.EncodeGenerations(&g)) })
		loss, err := record.DecodeLoss(raw)
		decoded(t, raw, err, func() []byte { return body(t, key, record.EncodeLoss(key, &loss)) })
		at, upTo, err := record.DecodeRetention(raw)
		if len(raw) > 8 { // an older botwired has only the time
			decoded(t, raw, err, func() []byte { return body(t, record.RetentionKey, record.EncodeRetention(at, upTo)) })
		}
		sums, err := record.DecodeTotals(raw)
		if err == nil && len(body(t, record.StateKey, record.EncodeTotals(&sums))) < len(raw) {
			return // an older botwired has one number more
		}
		decoded(t, raw, err, func() []byte { return body(t, record.StateKey, record.EncodeTotals(&sums)) })
	})
}

func FuzzKeys(f *testing.F) {
	f.Add("ns", "key", uint64(47), []byte("x"))
	f.Add("", "", ^uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, namespace, name string, seq uint64, raw []byte) {
		for _, prefix := range []string{record.PendingPrefix, record.DeadPrefix, record.LeftPrefix, record.ReceiptPrefix} {
			key := append([]byte(prefix), raw...)
			_, _, _ = record.ParsePendingKey(key)
			_, _ = record.ParseDeadKey(key)
			_, _, _ = record.ParseReceiptKey(key)
			_, _ = record.ParseEntryKey(prefix, key)
		}
		unsealed, err := record.Unseal([]byte(name), record.Seal([]byte(name), bytes.Clone(raw)))
		if err != nil || !bytes.Equal(unsealed, raw) {
			t.Errorf("%x became %x, %v", raw, unsealed, err)
		}
		if _, err := record.Unseal([]byte(name), raw); err == nil && len(raw) > 64 {
			t.Errorf("%x passes for a sealed record", raw)
		}
		id := record.ID{Namespace: namespace, Key: name}
		if bytes.ContainsRune([]byte(namespace), '/') {
			return
		}
		if got, n, err := record.ParsePendingKey(record.AppendPendingKey(nil, id, seq)); err != nil || got != id || n != seq {
			t.Errorf("%v, %d became %v, %d, %v", id, seq, got, n, err)
		}
		if got, err := record.ParseDeadKey(record.DeadKey(seq)); err != nil || got != seq {
			t.Errorf("%d became %d, %v", seq, got, err)
		}
		if generation, got, err := record.ParseReceiptKey(record.ReceiptKey(^seq, seq)); err != nil || generation != ^seq || got != seq {
			t.Errorf("%d became %d, %v", seq, got, err)
		}
	})
}

// Decoding returns what was encoded.
func TestRecordsOfFormat5(t *testing.T) {
	key := []byte("key")
	for _, origin := range []record.Origin{{}, {Seq: 1}, {At: 2}, {Seq: 1, At: 2}, {Seq: 1, After: 2}, {After: 2}} {
		row := record.Row{Key: "key", ListBytes: 3, UpdatedAt: 4, Origin: origin}
		if got, err := record.DecodeRow("key", body(t, key, record.EncodeRow(key, row))); err != nil || got != row {
			t.Errorf("%+v, %v; want %+v", got, err, row)
		}
	}
	left := []record.Content{record.ContentOf(record.Put, "v"), record.ContentOf(record.Delete, "")}
	if got, err := record.DecodeLeft(body(t, key, record.EncodeLeft(key, left))); err != nil || !slices.Equal(got, left) {
		t.Errorf("%+v, %v; want %+v", got, err, left)
	}
	totals := record.Totals{Seq: 9, Dead: 2, DeadBytes: 500, Batches: 4}
	if got, err := record.DecodeTotals(body(t, record.StateKey, record.EncodeTotals(&totals))); err != nil || got != totals {
		t.Errorf("%+v, %v; want %+v", got, err, totals)
	}
	if record.ContentOf(record.Put, "") == record.ContentOf(record.Delete, "") || record.ContentOf(record.Put, "a") == record.ContentOf(record.Put, "b") {
		t.Error("two contents are the same")
	}
}

// contract 17: an origin is lost when upstream shows another state, and an older time never replaces a
// known one.
func TestShown(t *testing.T) {
	for _, row := range []struct {
		origin record.Origin
		same   bool
		at     float64
		want   record.Origin
	}{
		{record.Origin{}, true, 5, record.Origin{At: 5}},
		{record.Origin{At: 4}, true, 5, record.Origin{At: 5}},
		{record.Origin{Seq: 1}, true, 5, record.Origin{Seq: 1, At: 5}},
		{record.Origin{Seq: 1}, false, 5, record.Origin{At: 5}},
		{record.Origin{Seq: 1, At: 5}, false, 5, record.Origin{Seq: 1, At: 5}},
		{record.Origin{Seq: 1, At: 4}, true, 5, record.Origin{At: 5}},
		{record.Origin{Seq: 1, After: 5}, true, 5, record.Origin{Seq: 1, At: 5}},
		{record.Origin{Seq: 1, After: 6}, true, 5, record.Origin{Seq: 1, After: 6}},
		{record.Origin{Seq: 1, After: 4}, false, 5, record.Origin{At: 5}},
	} {
		if got := row.origin.Shown(row.same, row.at); got != row.want {
			t.Errorf("%+v shown (%v) at %v is %+v, want %+v", row.origin, row.same, row.at, got, row.want)
		}
	}
}
