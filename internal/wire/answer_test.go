package wire_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/wire"
)

func TestAnswers(t *testing.T) {
	entry := wire.Entry{Namespace: "ns", Key: "k", Value: "v", CreatedAt: 1700000000, UpdatedAt: 1700000000.1234567}
	listing := wire.Listing{Namespace: "ns", Items: []wire.Item{{"b", 2, 1700000001.5}, {"a", 0, 1700000000}}}
	for _, c := range []struct{ got, want string }{
		{string(entry.AppendJSON([]byte("x"))), `x{"namespace":"ns","key":"k","value":"v","created_at":1700000000.0,"updated_at":1700000000.1234567}`},
		{string(listing.AppendJSON(nil)), `{"namespace":"ns","count":2,"keys":[{"key":"b","bytes":2,"updated_at":1700000001.5},{"key":"a","bytes":0,"updated_at":1700000000.0}]}`},
		{string(wire.Listing{Namespace: "ns"}.AppendJSON(nil)), `{"namespace":"ns","count":0,"keys":[]}`},
		{string(wire.AppendStored(nil, "ns", "k", 13)), `{"namespace":"ns","key":"k","stored":true,"bytes":13}`},
		{string(wire.AppendDeleted(nil, "ns", "k")), `{"deleted":true,"namespace":"ns","key":"k"}`},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}

func TestStringEscapes(t *testing.T) {
	for value, want := range map[string]string{
		"a\"b\\c/":           `"a\"b\\c/"`,
		"\b\f\n\r\t":         `"\b\f\n\r\t"`,
		"\x00\x01\x1f\x7f":   `"\u0000\u0001\u001f` + "\x7f\"",
		"é🚀<>&":              `"é🚀<>&"`,
		"\u2028\u2029\ufeff": "\"\u2028\u2029\ufeff\"",
		"\uFFFD":             "\"\uFFFD\"",
		"a\xffb\xc3":         "\"a\uFFFDb\uFFFD\"",
	} {
		got := string(wire.Entry{Value: value}.AppendJSON(nil))
		want = `{"namespace":"","key":"","value":` + want + `,"created_at":0.0,"updated_at":0.0}`
		if got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func TestFloats(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {-1.5, "-1.5"}, {1e15, "1000000000000000.0"}, {1e16, "1e+16"},
		{123456789012345680, "1.2345678901234568e+17"}, {0.0001, "0.0001"}, {0.00001, "1e-05"}, {1.5e-7, "1.5e-07"},
		{5e-324, "5e-324"}, {math.MaxFloat64, "1.7976931348623157e+308"}, {9999999999999998, "9999999999999998.0"},
		{1795240693.326843, "1795240693.326843"}, {math.Inf(1), "null"}, {math.NaN(), "null"},
	} {
		got := string(wire.Entry{CreatedAt: c.f}.AppendJSON(nil))
		want := `{"namespace":"","key":"","value":"","created_at":` + c.want + `,"updated_at":0.0}`
		if got != want {
			t.Errorf("%g: got %s, want %s", c.f, got, want)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add("ns", "k", "v\x00\u2028é", 1700000000.0, 1e-5)
	f.Fuzz(func(t *testing.T, ns, key, value string, created, updated float64) {
		e := wire.Entry{Namespace: strings.ToValidUTF8(ns, ""), Key: strings.ToValidUTF8(key, ""),
			Value: strings.ToValidUTF8(value, ""), CreatedAt: created, UpdatedAt: updated}
		if math.IsNaN(created-updated) || math.IsInf(created-updated, 0) {
			return
		}
		var got struct {
			Namespace string  `json:"namespace"`
			Key       string  `json:"key"`
			Value     string  `json:"value"`
			CreatedAt float64 `json:"created_at"`
			UpdatedAt float64 `json:"updated_at"`
		}
		if err := json.Unmarshal(e.AppendJSON(nil), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, wire.Entry(got)); diff != "" {
			t.Errorf("(-entry +read back):\n%s", diff)
		}
	})
}
