package botwire_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

// dialer connects to an upstream.
type dialer func(context.Context) (net.Conn, error)

func refusing(err error) dialer {
	return func(context.Context) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err} }
}

// taking returns an upstream that takes so many bytes of each connection, answers, and closes it or keeps silent.
func taking(bytes int64, answer string, closes bool) dialer {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			_, _ = io.CopyN(io.Discard, far, bytes) // the client may be gone
			_, _ = io.WriteString(far, answer)
			if closes {
				_ = far.Close()
			}
		}()
		return near, nil
	}
}

// whole returns an upstream that reads each request to its end, answers, and closes the connection or keeps silent.
func whole(answer string, closes bool) dialer {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			in := bufio.NewReader(far)
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err := io.WriteString(far, answer); err == nil && !closes {
				_, _ = in.ReadByte()
			}
		}()
		return near, nil
	}
}

func status(code int, body string) dialer {
	return whole(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s", code, len(body), body), true)
}

const saysNo = `{"detail":"no"}`

// contract 14, 15: what each outcome of a write means. Of an answer in BotWire's form, who made it.
var outcomes = []struct {
	name   string
	scheme string
	dial   dialer
	want   upstream.Verdict
}{
	{"refused", "http", refusing(syscall.ECONNREFUSED), upstream.Unsent},
	{"its name is unknown", "http", refusing(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), upstream.Unsent},
	{"no way leads there", "http", refusing(syscall.EHOSTUNREACH), upstream.Unsent},
	{"no connection in time", "http", func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, upstream.Unsent},
	{"no TLS spoken", "https", taking(1, "HTTP/1.1 400 Bad Request\r\n\r\n", true), upstream.Unsent},
	{"TLS cut off", "https", taking(1, "", true), upstream.Unsent},
	{"TLS hangs", "https", taking(1, "", false), upstream.Unsent},
	{"closed before a byte was taken", "http", taking(0, "", true), upstream.Unsent},

	{"cut amid its head", "http", taking(10, "", true), upstream.Unanswered},
	{"cut amid its body", "http", taking(20_000, "", true), upstream.Unanswered},
	{"hangs amid its body", "http", taking(20_000, "", false), upstream.Unanswered},
	{"cut before the answer", "http", whole("", true), upstream.Unanswered},
	{"no answer in time", "http", whole("", false), upstream.Unanswered},
	{"cut amid the answer's head", "http", whole("HTTP/1.1 200 OK\r\nContent-", true), upstream.Unanswered},
	{"cut amid the answer", "http", whole("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", true), upstream.Unanswered},
	{"hangs amid the answer", "http", whole("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", false), upstream.Unanswered},
	{"another protocol", "http", whole("SSH-2.0-x\r\n", true), upstream.Unanswered},
	{"101", "http", whole("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", true), upstream.Unanswered},

	{"503 of a proxy that was reset", "http", status(503, "upstream connect error or disconnect/reset before headers. reset reason: connection termination"), upstream.Unanswered},
	{"503 of another proxy", "http", status(503, "no healthy upstream"), upstream.Transient},
	{"503 of another proxy, as a page", "http", whole("HTTP/1.1 503 X\r\nContent-Type: Text/HTML; charset=utf-8\r\nContent-Length: 0\r\n\r\n", true), upstream.Unanswered},
	{"502", "http", status(502, "<html>"), upstream.Unanswered},
	{"502 in BotWire's form", "http", status(502, saysNo), upstream.Unanswered},
	{"504", "http", status(504, ""), upstream.Unanswered},
	{"520", "http", status(520, ""), upstream.Unanswered},
	{"522", "http", status(522, ""), upstream.Unanswered},
	{"524", "http", status(524, ""), upstream.Unanswered},

	{"stored", "http", status(200, `{"namespace":"ns","key":"k","stored":true}`), upstream.Confirmed},
	{"an early answer, whole", "http", taking(20_000, "HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n", false), upstream.Paused},
	{"a portal's page", "http", status(200, "<html>"), upstream.Transient},
	{"of another key", "http", status(200, `{"namespace":"ns","key":"j","stored":true}`), upstream.Transient},
	{"a redirect", "http", whole("HTTP/1.1 307 X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", true), upstream.Transient},
	{"408", "http", status(408, saysNo), upstream.Transient},
	{"425", "http", status(425, saysNo), upstream.Transient},
	{"500", "http", status(500, saysNo), upstream.Transient},
	{"503", "http", status(503, saysNo), upstream.Transient},
	{"507", "http", status(507, saysNo), upstream.Transient},
	{"507, the namespace is full", "http", status(507, `{"detail":"The namespace is full"}`), upstream.Paused},
	{"508 of somebody else", "http", status(508, saysNo), upstream.Transient},
	{"521", "http", status(521, ""), upstream.Transient},
	{"523", "http", status(523, ""), upstream.Transient},
	{"525", "http", status(525, ""), upstream.Transient},
	{"526", "http", status(526, ""), upstream.Transient},
	{"429", "http", status(429, ""), upstream.Throttled},
	{"400", "http", status(400, saysNo), upstream.Permanent},
	{"400 of a gateway", "http", status(400, "<html>"), upstream.Transient},
	{"413", "http", status(413, saysNo), upstream.Permanent},
	{"413, the namespace is full", "http", status(413, `{"detail":"Storage quota exceeded"}`), upstream.Paused},
	{"413 of a gateway", "http", status(413, ""), upstream.Transient},
	{"422", "http", status(422, saysNo), upstream.Permanent},
	{"422 of a gateway", "http", status(422, `{"errors":[]}`), upstream.Transient},
	{"401", "http", status(401, saysNo), upstream.Paused},
	{"402", "http", status(402, saysNo), upstream.Paused},
	{"403", "http", status(403, ""), upstream.Paused},
	{"404", "http", status(404, saysNo), upstream.Paused},
	{"418", "http", status(418, ""), upstream.Paused},
}

func TestOutcomes(t *testing.T) {
	for _, row := range outcomes {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := botwire.NewClient(botwire.Options{
					URL:     &url.URL{Scheme: row.scheme, Host: "upstream.test"},
					Timeout: timeout, Concurrency: 1, UserAgent: "test", Dial: row.dial,
				})
				defer c.Close()
				got := failureOf(put(t.Context(), c, strings.Repeat("v", 50_000)))
				if got.Verdict != row.want {
					t.Errorf("got %v (%s), want %v", got.Verdict, got.Reason, row.want)
				}
				if got.Unreachable != (row.want == upstream.Unsent && row.name != "closed before a byte was taken") {
					t.Errorf("unreachable: %v (%s)", got.Unreachable, got.Reason)
				}
			})
		})
	}
}
