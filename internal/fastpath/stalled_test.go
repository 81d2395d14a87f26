package fastpath_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
)

// stalled are beginnings of requests whose bodies stall, by who reads them.
var stalled = map[string]string{
	"a simple one":                      "PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
	"a simple one without a byte":       "PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n",
	"an odd one":                        "PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nPrefer: wait\r\nContent-Length: 100\r\n\r\n{",
	"a large one":                       "PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n{",
	"one that nobody would read out":    "POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n{",
	"one with a method of no body":      "GET /memory/quick/unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
	"one in chunks":                     "PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"va",
	"one that waits to be asked":        "PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
	"one of an old version":             "PUT /memory/quick/unread HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 100\r\n\r\n{",
	"one after others on net/http's":    chunked + "PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
	"one of a caller who is not let in": "PUT /memory/quick/unread/x HTTP/1.1\r\nHost: stranger\r\nContent-Length: 100\r\n\r\n{",
}

// leaving are handlers that answer without the body, by what they do first. net/http then reads the body.
var leaving = map[string]http.HandlerFunc{
	"leaves it": echo,
	"closes it": func(w http.ResponseWriter, r *http.Request) { // like a forwarder that cannot connect
		_ = r.Body.Close() // the answer shows whether it waited
		echo(w, r)
	},
	"begins its answer": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.(http.Flusher).Flush()
		echo(w, r)
	},
}

// The server answers a caller that begins with TLS at once, before the rest of the handshake.
func TestTLS(t *testing.T) {
	hello := "\x16\x03\x01\x00\xf8\x01\x00\x00\xf4\x03\x03"
	for name, text := range map[string]string{
		"a ClientHello": hello + strings.Repeat("\x00", 240), "one with a line feed": hello + "\n" + strings.Repeat("\x00", 239), "its first byte": hello[:1],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, nil)
				c := w.dial(t)
				began := time.Now()
				go func() { _, _ = io.WriteString(c, text) }() // the answer shows whether it arrived
				r, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || r.StatusCode != http.StatusBadRequest || !r.Close || !strings.Contains(string(body), "plain http") {
					t.Errorf("answered with %d %s: %v", r.StatusCode, body, err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("it came after %s", took)
				}
			})
		})
	}
}

// A request that is answered without its body gets its answer before the body comes. The connection soon ends
// if the body does not come.
func TestAnAnswerDoesNotWaitForTheBody(t *testing.T) {
	for name, text := range stalled {
		for how, handle := range leaving {
			t.Run(name+", and the handler "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { answeredWithoutIt(t, start(t, handle), text) })
			})
		}
	}
}

func answeredWithoutIt(t *testing.T, w *world, text string) {
	c := w.dial(t)
	began := time.Now()
	n := 1 + strings.Count(text, chunked)
	if got := exchange(t, c, text, n)[n-1]; !strings.HasSuffix(got, "unread") {
		t.Errorf("the answer is %s", got)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it came after %s", took)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) > 3*time.Second {
		t.Errorf("after %s the connection ends with %v", time.Since(began), err)
	}
	time.Sleep(time.Second) // net/http's own wait ends
}

// If the body comes after all, the connection goes on, with its earlier bounds.
func TestABodyThatComesAfterTheAnswer(t *testing.T) {
	for _, head := range []string{
		"PUT /memory/quick/unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n",
		"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n",
		chunked + "POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, nil)
			c := w.dial(t)
			from := bufio.NewReader(c)
			go func() {
				for _, text := range []string{head, strings.Repeat("x", 50), strings.Repeat("x", 50)} {
					_, _ = io.WriteString(c, text) // the answers show whether it arrived
					time.Sleep(time.Second / 5)
				}
			}()
			got := answers(t, from, 1+strings.Count(head, chunked))
			time.Sleep(idle / 2)
			go func() { _, _ = io.WriteString(c, request("PUT", "/memory/quick/k", "abc")) }()
			if got = append(got, answers(t, from, 1)...); !strings.Contains(got[len(got)-1], "abc") {
				t.Errorf("%q: the answers are %q", head, got)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A handler that starts its answer before the body has come may go on for as long as it likes once it has.
func TestAnAnswerGoesOnAfterTheBodyHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			rw.(http.Flusher).Flush()
			time.Sleep(3 * time.Second / 2)
			fmt.Fprintf(rw, "in the end: %v", r.Context().Err())
		})
		c := w.dial(t)
		go func() {
			for _, text := range []string{"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n", "01234", "56789"} {
				_, _ = io.WriteString(c, text) // the answer shows whether it arrived
				time.Sleep(time.Second / 5)
			}
		}()
		if got := answers(t, bufio.NewReader(c), 1); !strings.HasSuffix(got[0], "in the end: <nil>") {
			t.Errorf("the answer is %s", got)
		}
	})
}

// A connection whose request body stalls can be evicted like an idle one, whoever reads the body or waits for
// its end.
func TestStalledBodiesGiveWay(t *testing.T) {
	const n = 4
	quick := request("GET", "/memory/quick/k", "")
	for name, text := range stalled {
		for _, unread := range []bool{true, false} {
			if !unread {
				text = strings.ReplaceAll(text, "unread", "k")
			}
			t.Run(fmt.Sprintf("%s, answered without it %t", name, unread), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := startWith(t, nil, func(o *fastpath.Options) { o.MaxConns = n })
					for range 3 * n {
						c := w.dial(t)
						go func() { _, _ = io.Copy(io.Discard, c) }() // it ends with the connection
						if _, err := io.WriteString(c, text); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
					began := time.Now()
					newcomer := w.dial(t)
					exchange(t, newcomer, quick, 1)
					if took := time.Since(began); took != 0 {
						t.Errorf("the newcomer is answered after %s", took)
					}
					if err := w.server.Close(); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second) // net/http's own waits end
				})
			})
		}
	}
}

// The connection whose caller has been silent for longest is evicted. So one whose body goes on stays, and so
// does a whole request, whoever has read it.
func TestBodiesThatGoOnStay(t *testing.T) {
	const takes = 20 * time.Second
	head := map[string]string{
		"simple": "PUT /memory/quick/k HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n",
		"odd":    "PUT /memory/quick/k HTTP/1.1\r\nHost: h\r\nPrefer: wait\r\nContent-Length: 20\r\n\r\n",
		"chunks": "PUT /memory/quick/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n",
	}
	end := map[string]string{"chunks": "\r\n0\r\n\r\n"}
	for name := range head {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWith(t, func(rw http.ResponseWriter, r *http.Request) {
					echo(rw, r)
					if strings.Contains(r.URL.Path, "slow") {
						time.Sleep(takes)
					}
				}, func(o *fastpath.Options) { o.MaxConns = 3 })
				busy, goesOn := w.dial(t), w.dial(t)
				slow := strings.Replace(head[name], "quick", "slow", 1) + strings.Repeat("x", 20) + end[name]
				for c, text := range map[net.Conn]string{busy: slow, goesOn: head[name]} {
					if _, err := io.WriteString(c, text); err != nil {
						t.Fatal(err)
					}
				}
				for range 20 {
					time.Sleep(time.Second / 2)
					silent := w.dial(t)
					exchange(t, silent, request("GET", "/memory/quick/k", ""), 1)
					time.Sleep(time.Second / 2)
					if _, err := io.WriteString(goesOn, "x"); err != nil {
						t.Fatal(err)
					}
				}
				for _, c := range []net.Conn{goesOn, busy} {
					if got := exchange(t, c, end[name], 1)[0]; !strings.Contains(got, "200 ") || !strings.Contains(got, strings.Repeat("x", 20)) {
						t.Errorf("the answer is %s", got)
					}
				}
			})
		})
	}
}

// A request with two framings is refused, or is the last one on its connection (RFC 9112, section 6.1). A
// request in chunks alone is neither.
func TestTwoFramings(t *testing.T) {
	two := strings.Replace(chunked, "Transfer-Encoding", "Content-Length: 3\r\nTransfer-Encoding", 1)
	quick, get := request("PUT", "/memory/quick/k", "abc"), request("GET", "/memory/quick/k", "")
	for _, test := range []struct {
		name, text string
		statuses   []int
		stays      bool
	}{
		{"chunks alone", chunked + quick, []int{200, 200}, true},
		{"chunks again and again", chunked + chunked + chunked + get, []int{200, 200, 200, 200}, true},
		{"chunks after a header that only net/http understands", strings.Replace(chunked, "Transfer", "Upgrade: foo\r\nTransfer", 1) + chunked + get, []int{200, 200, 200}, true},
		{"chunks after a length on a connection of net/http's", chunked + quick + chunked + quick, []int{200, 200, 200}, false},
		{"the length first", quick + two + quick, []int{200, 400}, false},
		{"the length last", strings.Replace(chunked, "chunked\r\n", "chunked\r\nContent-Length: 3\r\n", 1) + quick, []int{400}, false},
		{"no length", strings.Replace(two, "Content-Length: 3", "Content-Length: 0", 1) + quick, []int{400}, false},
		{"with a header that only net/http understands", strings.Replace(two, "Content", "Expect: 100-continue\r\nContent", 1) + quick, []int{100, 200}, false},
		{"behind a header that only net/http understands", strings.Replace(chunked, "chunked\r\n", "chunked\r\nUpgrade: foo\r\nContent-Length: 3\r\n", 1) + quick, []int{200}, false},
		{"with two lengths", strings.Replace(two, "Content", "Content-Length: 3\r\nContent", 1) + quick, []int{200}, false},
		{"in a long head", strings.Replace(two, "Content", "X-Long: "+strings.Repeat("x", 9000)+"\r\nContent", 1) + quick, []int{400}, false},
		{"on a connection of net/http's", chunked + two + quick, []int{200, 200}, false},
		{"chunks of another kind", strings.Replace(chunked, "chunked", "gzip, chunked", 1) + quick, []int{501}, false},
		{"chunks twice", strings.Replace(chunked, "chunked\r\n", "chunked\r\nTransfer-Encoding: chunked\r\n", 1) + quick, []int{501}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, nil)
				c := w.dial(t)
				began := time.Now()
				go func() { _, _ = io.WriteString(c, test.text) }() // the answers show whether it arrived
				from := bufio.NewReader(c)
				for i, want := range test.statuses {
					r, err := http.ReadResponse(from, nil)
					if err != nil {
						t.Fatalf("after %d answers: %v", i, err)
					}
					body, err := io.ReadAll(r.Body)
					if err != nil || r.StatusCode != want {
						t.Errorf("answer %d is %d %s: %v, want %d", i, r.StatusCode, body, err, want)
					}
					if last := i == len(test.statuses)-1; r.Close != (last && !test.stays) {
						t.Errorf("answer %d closes the connection: %t", i, r.Close)
					}
				}
				if test.stays {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					return
				}
				if _, err := from.ReadByte(); !errors.Is(err, io.EOF) || time.Since(began) > 3*time.Second {
					t.Errorf("after %s the connection ends with %v", time.Since(began), err)
				}
				time.Sleep(time.Second) // net/http's own wait ends
			})
		})
	}
}
