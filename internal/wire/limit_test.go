package wire_test

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/wire"
)

func TestParseLimit(t *testing.T) {
	for query, want := range map[string]int{
		"":                       100,
		"x=1&limits=5":           100,
		"LIMIT=5":                100,
		"limit=7":                7,
		"limit=1000":             1000,
		"limit=1&limit=2":        2,
		"limit=abc&limit=2":      2,
		"lim%69t=3":              3,
		"&&limit=4&":             4,
		"limit=%2B2":             2,
		"limit=+2":               2,
		"limit=%202%09":          2,
		"limit=%C2%A02%E2%80%83": 2,
		"limit=2.0":              2,
		"limit=2.000":            2,
		"limit=1_0":              10,
		"limit=1_0.0":            10,
		"limit=007":              7,
		"limit=0_5":              5,
		"limit=0_0_5":            5,
		"limit=%2B0_5":           5,
		"limit=%0A5":             5,
		"limit=" + strings.Repeat("0", 5000) + "9": 9,
	} {
		if got, refusal := wire.ParseLimit(query); refusal != nil || got != want {
			t.Errorf("%.60s: got %d, %v, want %d", query, got, refusal, want)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	const (
		parsing = `{"detail":[{"type":"int_parsing","loc":["query","limit"],"msg":"Input should be a valid integer, unable to parse string as an integer","input":"INPUT"}]}`
		low     = `{"detail":[{"type":"greater_than_equal","loc":["query","limit"],"msg":"Input should be greater than or equal to 1","input":"INPUT","ctx":{"ge":1}}]}`
		high    = `{"detail":[{"type":"less_than_equal","loc":["query","limit"],"msg":"Input should be less than or equal to 1000","input":"INPUT","ctx":{"le":1000}}]}`
	)
	nines := strings.Repeat("9", 4300)
	for _, c := range []struct{ query, input, body string }{
		{"limit", "", parsing},
		{"limit=", "", parsing},
		{"limit=abc", "abc", parsing},
		{"limit=5;limit=2", "5;limit=2", parsing},
		{"limit=1&limit=%22", `\"`, parsing},
		{"limit=%zz", "%zz", parsing},
		{"limit=5%", "5%", parsing},
		{"limit=%FF", "\uFFFD", parsing},
		{"limit=%ED%A0%80", "\uFFFD\uFFFD\uFFFD", parsing},
		{"limit=1%00", `1\u0000`, parsing},
		{"limit=1.5", "1.5", parsing},
		{"limit=1.", "1.", parsing},
		{"limit=.0", ".0", parsing},
		{"limit=1e2", "1e2", parsing},
		{"limit=0x10", "0x10", parsing},
		{"limit=_1", "_1", parsing},
		{"limit=1_", "1_", parsing},
		{"limit=1__0", "1__0", parsing},
		{"limit=1_0.0_0", "1_0.0_0", parsing},
		{"limit=0_", "0_", parsing},
		{"limit=0_.0", "0_.0", parsing},
		{"limit=0x", "0x", parsing},
		{"limit=--1", "--1", parsing},
		{"limit=%2B-1", "+-1", parsing},
		{"limit=-%2B1", "-+1", parsing},
		{"limit=-", "-", parsing},
		{"limit=%D9%A3", "٣", parsing},
		{"limit=%1C5", `\u001c5`, parsing},
		{"limit=0", "0", low},
		{"limit=-0", "-0", low},
		{"limit=-1", "-1", low},
		{"limit=0.0", "0.0", low},
		{"limit=0-5", "0-5", parsing},
		{"limit=-5.0", "-5.0", low},
		{"limit=-0_5", "-0_5", low},
		{"limit=-" + nines[:4299], "-" + nines[:4299], low},
		{"limit=1001", "1001", high},
		{"limit=9999999999999999999", "9999999999999999999", high},
		{"limit=" + nines, nines, high},
	} {
		_, refusal := wire.ParseLimit(c.query)
		if refusal == nil {
			t.Errorf("%.60s: accepted", c.query)
			continue
		}
		want := strings.Replace(c.body, "INPUT", c.input, 1)
		if refusal.Status != 422 || string(refusal.Body) != want {
			t.Errorf("%.60s: got %d %.300s, want %.300s", c.query, refusal.Status, refusal.Body, want)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, query := range []string{"limit=5", "limit=%2B1_0.0", "limit=0-5", "limit=%E2%82", "a&limit", "limit=00_.0"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		limit, refusal := wire.ParseLimit(query)
		if refusal == nil && (limit < 1 || limit > 1000) {
			t.Errorf("%q: accepted as %d", query, limit)
		}
		if refusal != nil {
			checkRefusal(t, refusal)
		}
	})
}
