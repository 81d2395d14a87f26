package record_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal/internal/record"
)

// extremes sets each number and text of a record to its extremes, one at a time. check gets the field's path.
func extremes(v reflect.Value, path string, check func(path string, value any)) {
	set := func(values ...any) {
		before := reflect.ValueOf(v.Interface())
		for _, value := range values {
			v.Set(reflect.ValueOf(value).Convert(v.Type()))
			check(path, value)
		}
		v.Set(before)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			extremes(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), check)
		}
	case reflect.Pointer:
		extremes(v.Elem(), path, check)
	case reflect.Slice:
		for i := range v.Len() {
			extremes(v.Index(i), path, check)
		}
	case reflect.Float64:
		set(0.0, -5.0, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN())
	case reflect.Int, reflect.Int64:
		set(0, -1, math.MinInt64, math.MaxInt64, 1<<28, 1<<29, 1<<30, 1<<31, 1<<32)
	case reflect.Int32:
		set(0, -1, math.MinInt32, math.MaxInt32, 1<<28, 1<<29, 1<<30)
	case reflect.Uint64:
		set(uint64(0), uint64(math.MaxUint64))
	case reflect.String:
		set("", "\x00", string(make([]byte, 1<<16)))
	default: // a kind of write, a content or a flag, which are always valid
	}
}

// contract 4: no number that upstream can show makes a record that does not decode: readers would take it for damage.
func TestEveryRecordDecodes(t *testing.T) {
	key := []byte("key")
	id := record.ID{Namespace: "ns", Key: "key"}
	origin := record.Origin{Seq: 1, At: 2}
	version := record.Pending{Op: record.Put, UpdatedAt: 1, WrittenAt: 2, Since: 3, CreatedAt: 4, Bytes: 1, ListBytes: 1}
	conditional, over := version, record.Base{Known: true, Present: true, Origin: origin, UpdatedAt: 3, MadeAt: 4}
	conditional.Conditional = true
	type pendingWrite struct {
		record.Pending
		Over record.Base
	}
	type settled struct {
		record.Observation
		ConfirmedAt float64
	}
	for _, of := range []struct {
		records []any // pointers
		encode  func(r any) []byte
		decode  func(body []byte) (any, error)
	}{
		{
			[]any{&settled{record.Observation{ListBytes: 1, CreatedAt: 1, UpdatedAt: 2, AbsentAt: 3, MadeAt: 4, Origin: origin}, 5}, &settled{}},
			func(r any) []byte {
				s := r.(*settled)
				return record.EncodeSettled(key, &s.Observation, s.ConfirmedAt, 7)
			},
			func(b []byte) (any, error) {
				o, at, version, err := record.DecodeSettled(b)
				if version != 7 && err == nil {
					err = fmt.Errorf("version %d", version)
				}
				return &settled{o, at}, err
			},
		},
		{
			[]any{&record.Row{ListBytes: 1, UpdatedAt: 2, Origin: origin}, &record.Row{}},
			func(r any) []byte { return record.EncodeRow(key, *r.(*record.Row)) },
			func(b []byte) (any, error) { r, err := record.DecodeRow("", b); return &r, err },
		},
		{
			[]any{&record.Header{FetchedAt: 1, Newest: 2, Suspect: record.Suspect{Since: 3, Missing: 4, Of: 5}}},
			func(r any) []byte { return record.EncodeHeader(key, *r.(*record.Header)) },
			func(b []byte) (any, error) { h, err := record.DecodeHeader(b); return &h, err },
		},
		{
			[]any{&pendingWrite{Pending: version}, &pendingWrite{conditional, over}},
			func(r any) []byte { p := r.(*pendingWrite); return record.EncodePending(nil, key, &p.Pending, &p.Over) },
			func(b []byte) (any, error) {
				v, over, err := record.DecodePending(b)
				if over == nil {
					over = &record.Base{}
				}
				return &pendingWrite{v, *over}, err
			},
		},
		{
			[]any{&record.Dead{
				ID: id, Pending: version, Value: "v", Author: "a", Kind: record.Dropped, SupersededBy: 1, Status: 2, Error: "e",
				RefusedAt: 3,
			}},
			func(r any) []byte { return record.EncodeDead(key, r.(*record.Dead)) },
			func(b []byte) (any, error) { l, err := record.DecodeDead(0, b); return &l, err },
		},
		{
			[]any{&record.Receipt{ID: id, Op: record.Put, State: record.ReceiptSettled, WrittenAt: 1, SettledAt: 2, By: 3, Reason: "r"}},
			func(r any) []byte { return record.EncodeReceipt(key, r.(*record.Receipt)) },
			func(b []byte) (any, error) { r, err := record.DecodeReceipt(0, b); return &r, err },
		},
		{
			[]any{&record.Sending{Boot: "b", At: 1}, &record.Sending{}},
			func(r any) []byte { return record.EncodeSending(*r.(*record.Sending)) },
			func(b []byte) (any, error) { s, err := record.DecodeSending(b); return &s, err },
		},
		{
			[]any{&record.Version{Op: record.Put, Shown: true, At: 1, Follows: 2, Author: "a", Host: "h", ListBytes: 3, Value: "v"}},
			func(r any) []byte { return sealedVersion(key, r.(*record.Version)) },
			func(b []byte) (any, error) { s, err := record.DecodeVersion(b); return &s, err },
		},
		{
			[]any{&record.Loss{Gone: true, Apart: true, At: 1, Order: 2, Size: 3}, &record.Loss{}},
			func(r any) []byte { return record.EncodeLoss(key, r.(*record.Loss)) },
			func(b []byte) (any, error) { l, err := record.DecodeLoss(b); return &l, err },
		},
		{
			[]any{&record.Generations{BeganAt: 1, All: []record.Generation{{Number: 2, Receipts: 3}}}},
			func(r any) []byte { return record.EncodeGenerations(r.(*record.Generations)) },
			func(b []byte) (any, error) { g, err := record.DecodeGenerations(b); return &g, err },
		},
		{
			[]any{&record.Totals{Seq: 1, Pending: 2, PendingBytes: 3, Sum: 4, Dead: 5, DeadBytes: 6, Batches: 8}},
			func(r any) []byte { return record.EncodeTotals(r.(*record.Totals)) },
			func(b []byte) (any, error) { r, err := record.DecodeTotals(b); return &r, err },
		},
	} {
		for _, r := range of.records {
			extremes(reflect.ValueOf(r).Elem(), "", func(path string, value any) {
				sealed := of.encode(r)
				body := sealed[:len(sealed)-4]
				got, err := of.decode(body)
				if err != nil {
					t.Errorf("%T with %s = %v: %v", r, path, value, err)
					return
				}
				if again := of.encode(got); !bytes.Equal(sealed, again) {
					t.Errorf("%T with %s = %v is encoded anew in another way: %+v", r, path, value, got)
				}
				part := path // which may be bounded
				for _, whole := range []string{"Origin", "Suspect"} {
					if begin, _, ok := strings.Cut(path, whole); ok {
						part = begin + whole
					}
				}
				others := cmp.FilterPath(func(p cmp.Path) bool {
					return strings.HasPrefix(p.String(), part) || path == "Value" && p.String() == "Pending.Bytes"
				}, cmp.Ignore())
				if diff := cmp.Diff(r, got, others, cmp.AllowUnexported(settled{})); diff != "" {
					t.Errorf("%T with %s = %v became (-encoded +decoded):\n%s", r, path, value, diff)
				}
			})
		}
	}
}
