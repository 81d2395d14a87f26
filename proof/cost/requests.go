package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/botwired/botwired/proof/load"
)

const valueSize = 200 // bytes

// requester makes the n-th request of a connection.
type requester = func(dst []byte, connection, n int) []byte

// naming appends the namespace and key of a request.
type naming = func(dst []byte, connection, n int) []byte

// entry names one of the entries that are read. Each connection goes its own way through all.
func entry(dst []byte, connection, n int) []byte {
	i := (connection*389 + n) % entries
	dst = strconv.AppendInt(append(dst, "agent-"...), int64(i%100), 10)
	return strconv.AppendInt(append(dst, "/fact-"...), int64(i), 10)
}

// ofList names the entries of the namespace that is listed.
func ofList(dst []byte, _, n int) []byte {
	return strconv.AppendInt(append(dst, "listed/key-"...), int64(n), 10)
}

// oneKey names the same entry each time.
func oneKey(dst []byte, _, _ int) []byte { return append(dst, "agent-0/counter"...) }

// absent names an entry that upstream does not hold.
func absent(dst []byte, _, _ int) []byte { return append(dst, "agent-0/nothing"...) }

// distinct names an entry for each request of a batch.
func distinct(batch string) naming {
	return func(dst []byte, connection, n int) []byte {
		dst = strconv.AppendInt(append(dst, "agent-"...), int64((connection*31+n)%100), 10)
		dst = append(append(dst, '/'), batch...)
		dst = strconv.AppendInt(append(dst, '-'), int64(connection), 10)
		return strconv.AppendInt(append(dst, '-'), int64(n), 10)
	}
}

func gets(host string, name naming) requester {
	return func(dst []byte, connection, n int) []byte {
		return load.AppendHost(name(append(load.AppendGet(dst), "/memory/"...), connection, n), host)
	}
}

func deletes(host string, name naming) requester {
	return func(dst []byte, connection, n int) []byte {
		return load.AppendHost(name(append(dst, "DELETE /memory/"...), connection, n), host)
	}
}

// list makes each request a LIST of the namespace.
func list(host string) requester {
	request := load.AppendHost(fmt.Appendf(load.AppendGet(nil), "/memory/listed?limit=%d", listed), host)
	return func(dst []byte, _, _ int) []byte { return append(dst, request...) }
}

func puts(host string, name naming) requester {
	body := []byte(`{"value":"` + strings.Repeat("x", valueSize) + `"}`)
	return func(dst []byte, connection, n int) []byte {
		dst = name(append(load.AppendPut(dst), "/memory/"...), connection, n)
		return append(load.AppendBody(dst, host, len(body)), body...)
	}
}

// answered is the parser of answers with a status and a Content-Length.
func answered(status string) load.Parser {
	return func(read []byte) (length int, err error) {
		head, _, whole := bytes.Cut(read, []byte("\r\n\r\n"))
		if !whole {
			return 0, nil
		}
		_, after, found := bytes.Cut(head, []byte("\r\nContent-Length: "))
		text, _, _ := bytes.Cut(after, []byte("\r\n"))
		body, err := strconv.Atoi(string(text))
		if !found || err != nil || !bytes.HasPrefix(head, []byte("HTTP/1.1 "+status+" ")) {
			return 0, fmt.Errorf("answered %q", read[:min(len(read), 200)])
		}
		return len(head) + len("\r\n\r\n") + body, nil
	}
}
