package botwire_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

// OnAnswer gets the Date of every answer, and when its request was sent and it arrived. For a cached
// answer the Date is zero.
func TestTimesOfAnswers(t *testing.T) {
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	for header, want := range map[string]string{
		"":                                       "",
		"Date: " + date + "\r\n":                 date,
		"Date: " + date + "\r\nAge: 0\r\n":       date,
		"Date: " + date + "\r\nAge: 3\r\n":       "",
		"Date: soon\r\n":                         "",
		"Date: Sun Nov  6 08:49:37 1994\r\n":     date,
		"Age: 3\r\n":                             "",
		"Date: " + date + "\r\nAge: forever\r\n": "",
	} {
		synctest.Test(t, func(t *testing.T) {
			const connecting, answering = time.Second, 3 * time.Second
			began := time.Now()
			answers := 0
			c := botwire.NewClient(botwire.Options{
				URL: &url.URL{Scheme: "http", Host: "upstream.test"}, Timeout: timeout, Concurrency: 1,
				Dial: func(ctx context.Context) (net.Conn, error) {
					time.Sleep(connecting)
					return slow(ctx, answering, "HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\nConnection: close\r\n"+header+"\r\n")
				},
				OnAnswer: func(date, sent, received time.Time) {
					answers++
					got := ""
					if !date.IsZero() {
						got = date.UTC().Format(http.TimeFormat)
					}
					if got != want {
						t.Errorf("%q: the Date is %q, want %q", header, got, want)
					}
					if sent.Sub(began) != connecting || received.Sub(began) != connecting+answering {
						t.Errorf("%q: sent after %v, received after %v", header, sent.Sub(began), received.Sub(began))
					}
				},
			})
			defer c.Close()
			if _, err := c.Get(t.Context(), key("k")); err == nil || answers != 1 {
				t.Errorf("%q: %v, and %d answers", header, err, answers)
			}
		})
	}
}

// slow answers like scripted after a delay.
func slow(ctx context.Context, wait time.Duration, response string) (net.Conn, error) {
	near, err := scripted(ctx, response)
	return &slowConn{near, wait}, err
}

type slowConn struct {
	net.Conn
	wait time.Duration
}

func (c *slowConn) Read(p []byte) (int, error) {
	time.Sleep(c.wait)
	c.wait = 0
	return c.Conn.Read(p)
}

// contract 15: a date until which upstream asks to wait is one of upstream's clock, however wrong the clock of either is.
func TestADateToWaitForIsOfUpstreamsClock(t *testing.T) {
	const ahead, behind = "Sat, 06 Nov 2094 ", "Sun, 06 Nov 1994 "
	for header, want := range map[string]time.Duration{
		"Date: " + ahead + "08:49:37 GMT\r\nRetry-After: " + ahead + "08:50:37 GMT\r\n":   time.Minute,
		"Date: " + behind + "08:49:37 GMT\r\nRetry-After: " + behind + "08:50:37 GMT\r\n": time.Minute,
		"Date: " + ahead + "08:49:37 GMT\r\nRetry-After: " + ahead + "08:49:30 GMT\r\n":   0,
		"Date: " + ahead + "08:49:37 GMT\r\nRetry-After: 10\r\n":                          10 * time.Second,
		"Retry-After: " + ahead + "08:50:37 GMT\r\n":                                      24 * time.Hour,
		"Retry-After: " + behind + "08:50:37 GMT\r\n":                                     0,
	} {
		c := answering(t, "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\nConnection: close\r\n"+header+"\r\n")
		_, err := c.Get(t.Context(), key("k"))
		if failed := upstream.ErrorOf(err); failed == nil || failed.Verdict != upstream.Throttled || failed.RetryAfter != want {
			t.Errorf("%s: %+v, want a wait of %v", header, failed, want)
		}
	}
}
