package load

import (
	"strings"
	"testing"
)

func TestParsers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\nAge: 3\r\n\r\n"
	for _, test := range []struct {
		name    string
		parse   Parser
		read    string
		length  int
		refused string
	}{
		{"half a header", HTTPAnswer, ok[:20], 0, ""},
		{"a header", HTTPAnswer, ok, len(ok) + 12, ""},
		{"a header and half a body", HTTPAnswer, ok + "123", len(ok) + 12, ""},
		{"no body", HTTPAnswer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 38, ""},
		{"another status", HTTPAnswer, "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 1\r\n\r\n", 0, "507"},
		{"no length", HTTPAnswer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "no Content-Length"},
		{"a length in the body", HTTPAnswer, "HTTP/1.1 200 OK\r\n\r\n\r\nContent-Length: 1\r\n", 0, "no Content-Length"},
		{"half a line", RedisAnswer, "+O", 0, ""},
		{"a line without its end", RedisAnswer, "$12\r", 0, ""},
		{"a simple string", RedisAnswer, "+OK\r\n", 5, ""},
		{"a value", RedisAnswer, "$3\r\nabc\r\n", 9, ""},
		{"half a value", RedisAnswer, "$300\r\nab", 308, ""},
		{"no value", RedisAnswer, "$-1\r\n", 0, "no value"},
		{"an error", RedisAnswer, "-ERR no\r\n", 0, "ERR no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			length, err := test.parse([]byte(test.read))
			if length != test.length || (err != nil) != (test.refused != "") {
				t.Errorf("length %d, want %d (%v)", length, test.length, err)
			}
			if err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("error %v, want %q in it", err, test.refused)
			}
		})
	}
}

func TestAppending(t *testing.T) {
	get := AppendHost(append(AppendGet(nil), "/memory/ns/k"...), "h:1")
	if string(get) != "GET /memory/ns/k HTTP/1.1\r\nHost: h:1\r\n\r\n" {
		t.Errorf("%q", get)
	}
	put := AppendBody(append(AppendPut(nil), "/memory/ns/k"...), "h:1", 2)
	if string(put) != "PUT /memory/ns/k HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n" {
		t.Errorf("%q", put)
	}
	set := AppendWord(AppendWord(AppendWord(AppendCommand(nil, 3), "SET"), "k"), []byte("value"))
	if string(set) != "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n" {
		t.Errorf("%q", set)
	}
}
