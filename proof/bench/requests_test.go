package main

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"strings"
	"testing"

	"github.com/botwired/botwired/proof/load"
)

func TestRequestsReadEveryEntry(t *testing.T) {
	for connection := range 3 {
		seen := map[int]bool{}
		for n := range entries {
			seen[spread(connection, n)] = true
		}
		if len(seen) != entries {
			t.Errorf("connection %d reads %d entries, want %d", connection, len(seen), entries)
		}
	}
}

func TestWritesAreAllDifferent(t *testing.T) {
	put := httpPuts("h", distinct)
	seen := map[string]bool{}
	for connection := range 4 {
		for n := range 100 {
			text := string(put(nil, connection, n))
			line, _, _ := strings.Cut(text, " HTTP")
			_, body, _ := strings.Cut(text, "\r\n\r\n")
			var doc struct{ Value string }
			if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Value) != valueSize {
				t.Fatalf("a value of %d bytes, %v in %q", len(doc.Value), err, body)
			}
			if seen[line] || seen[doc.Value] {
				t.Fatalf("%s with %s came before", line, doc.Value)
			}
			seen[line], seen[doc.Value] = true, true
		}
	}
}

// Text that compresses would make any store look small.
func TestValuesDoNotCompress(t *testing.T) {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	v, all := newValues(), 0
	for n := range 1000 {
		value := v.append(nil, 3, n)
		all += len(value)
		if _, err := w.Write(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Of six bits in eight, and stamps of digits, an entropy coder makes less.
	if least := all * 6 / 10; packed.Len() < least {
		t.Errorf("%d bytes become %d, want at least %d", all, packed.Len(), least)
	}
}

func TestRedisSet(t *testing.T) {
	text := string(redisSets(oneKey)(nil, 2, 3))
	const head, end = "*3\r\n$3\r\nSET\r\n$15\r\nagent-0/counter\r\n$200\r\n", "55555232099120000000\r\n"
	if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, end) || len(text) != len(head)+valueSize+2 {
		t.Errorf("%q", text)
	}
}

func TestOneInTenIsAWrite(t *testing.T) {
	mix := mixed(always([]byte("r")), always([]byte("w")))
	for connection := range 3 {
		writes := 0
		for n := range 100 {
			if string(mix(nil, connection, n)) == "w" {
				writes++
			}
		}
		if writes != 10 {
			t.Errorf("%d writes in 100", writes)
		}
	}
}

// Making a request must cost little, or the figures would include it.
func TestRequestsDoNotAllocate(t *testing.T) {
	for name, make := range map[string]requester{
		"get": getEntries("h"), "put": httpPuts("h", distinct), "redis get": redisGets(), "redis set": redisSets(distinct),
		"mixed": mixed(getEntries("h"), httpPuts("h", existing())),
	} {
		dst, n := []byte(strings.Repeat(" ", 1024)), 0
		if got := testing.AllocsPerRun(100, func() { dst = make(dst[:0], 3, n); n++ }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func TestParsersDoNotAllocate(t *testing.T) {
	answers := map[string]load.Parser{
		"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n": load.HTTPAnswer, "$200\r\nabc": load.RedisAnswer,
	}
	for text, parse := range answers {
		read := []byte(text)
		if got := testing.AllocsPerRun(100, func() { _, _ = parse(read) }); got != 0 {
			t.Errorf("%q: %v allocations", text, got)
		}
	}
}
