package flush_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/flush"
)

// unreached are upstreams on this machine's network that no request reaches: its URL, and how to connect where that is not
// as usual.
var unreached = map[string]func(t *testing.T) (url string, dial func(context.Context) (net.Conn, error)){
	"refused": func(t *testing.T) (string, func(context.Context) (net.Conn, error)) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return "http://" + l.Addr().String(), nil
	},
	"no DNS": func(*testing.T) (string, func(context.Context) (net.Conn, error)) {
		fails := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no name server")
		}}
		return "http://upstream.test.", func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{Resolver: fails}).DialContext(ctx, "tcp", "upstream.test.:80")
		}
	},
	"a certificate that nobody trusts": func(t *testing.T) (string, func(context.Context) (net.Conn, error)) {
		return served(t, (*httptest.Server).StartTLS).URL, nil
	},
	"no TLS": func(t *testing.T) (string, func(context.Context) (net.Conn, error)) {
		return strings.Replace(served(t, (*httptest.Server).Start).URL, "http:", "https:", 1), nil
	},
}

// served returns a server to which no request may come.
func served(t *testing.T, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("upstream got %s %s", r.Method, r.URL)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(s)
	t.Cleanup(s.Close)
	return s
}

// contract 14, 15: what never reached upstream is sent again after the backoff: there is no window.
func TestWhatNeverReachedUpstreamOpensNoWindow(t *testing.T) {
	for name, open := range unreached {
		t.Run(name, func(t *testing.T) {
			address, dial := open(t)
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			client := botwire.NewClient(botwire.Options{URL: u, Timeout: time.Minute, Concurrency: 1, UserAgent: "test", Dial: dial})
			t.Cleanup(client.Close)
			verdicts := make(chan upstream.Verdict, 100)
			r := openRig(&rig{fake: &fake{t: t}, t: t, fs: vfs.NewMem(), adjust: func(o *flush.Options) {
				o.Engine, o.LateWindow, o.BackoffInitial = client, time.Hour, time.Millisecond
				o.OnOutcome = func(_ journal.Op, v upstream.Verdict) { verdicts <- v }
			}})
			r.put(key("k"), "v")
			for range 3 { // an hour passes between two of them, if there is a window
				if v := <-verdicts; v != upstream.Unsent {
					t.Fatalf("the verdict is %v", v)
				}
			}
			if why, _ := r.flusher.EntryWaits(key("k")); strings.HasPrefix(why, "unanswered") {
				t.Errorf("it waits: %s", why)
			}
		})
	}
}
