package load

import (
	"bytes"
	"fmt"
	"strconv"
)

var (
	headerEnd   = []byte("\r\n\r\n")
	okStatus    = []byte("HTTP/1.1 200 ")
	lengthField = []byte("\r\nContent-Length: ")
)

// maxShown bounds the part of an answer in an error, in bytes.
const maxShown = 200

// HTTPAnswer is the [Parser] of HTTP/1.1. It takes a 200 with a Content-Length, as Go's
// server writes it, and refuses anything else.
func HTTPAnswer(read []byte) (length int, err error) {
	end := bytes.Index(read, headerEnd)
	if end < 0 {
		return 0, nil
	}
	if !bytes.HasPrefix(read, okStatus) {
		return 0, fmt.Errorf("answered %q", read[:min(len(read), maxShown)])
	}
	at := bytes.Index(read[:end], lengthField)
	if at < 0 {
		return 0, fmt.Errorf("no Content-Length in %q", read[:min(len(read), maxShown)])
	}
	body := 0
	for _, c := range read[at+len(lengthField) : end] {
		if c < '0' || c > '9' {
			break
		}
		body = body*10 + int(c-'0')
	}
	return end + len(headerEnd) + body, nil
}

// AppendGet appends the head of a GET up to its path, which the caller appends;
// [AppendHost] ends it.
func AppendGet(dst []byte) []byte { return append(dst, "GET "...) }

// AppendPut appends the head of a PUT up to its path.
func AppendPut(dst []byte) []byte { return append(dst, "PUT "...) }

// AppendHost ends the head of a request without a body.
func AppendHost(dst []byte, host string) []byte {
	return append(appendHost(dst, host), "\r\n"...)
}

// AppendBody ends the head of a request with a body of n bytes of JSON, which have to
// follow.
func AppendBody(dst []byte, host string, n int) []byte {
	dst = append(appendHost(dst, host), "Content-Type: application/json\r\nContent-Length: "...)
	return append(strconv.AppendInt(dst, int64(n), 10), headerEnd...)
}

func appendHost(dst []byte, host string) []byte {
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	return append(append(dst, host...), "\r\n"...)
}
