package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server and returns the options of a load on it.
func serve(t *testing.T, handler http.HandlerFunc) Options {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	host := server.Listener.Addr().String()
	return Options{
		Address: host, Connections: 4, Answer: HTTPAnswer,
		Request: func(dst []byte, connection, n int) []byte {
			dst = strconv.AppendInt(append(AppendGet(dst), '/'), int64(connection), 10)
			dst = strconv.AppendInt(append(dst, '/'), int64(n), 10)
			return AppendHost(dst, host)
		},
	}
}

func TestEveryRequestIsMadeOnce(t *testing.T) {
	var seen [4][25]atomic.Int32
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		connection, n, _ := strings.Cut(r.URL.Path[1:], "/")
		i, _ := strconv.Atoi(connection)
		j, _ := strconv.Atoi(n)
		seen[i][j].Add(1)
		body := strings.Repeat("x", j*10_000) // some longer than what is read at a time
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write([]byte(body))
	})
	o.Requests = 25
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if result.Requests != 100 || result.Latency.Count() != 100 || result.PerSecond <= 0 {
		t.Errorf("%d requests, %v/s", result.Requests, result.PerSecond)
	}
	for i := range seen {
		for j := range seen[i] {
			if n := seen[i][j].Load(); n != 1 {
				t.Errorf("request %d of connection %d came %d times", j, i, n)
			}
		}
	}
}

func TestWarmupDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		came := 0
		go func() {
			defer func() { _ = server.Close() }()
			for b := make([]byte, 1); ; came++ {
				if _, err := server.Read(b); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
				_, _ = io.WriteString(server, "+OK\r\n")
			}
		}()
		o := Options{
			Warmup: 50 * time.Millisecond, Duration: 70 * time.Millisecond, Answer: RedisAnswer,
			Request: func(dst []byte, _, _ int) []byte { return append(dst, 'x') },
		}
		result, err := run(t.Context(), &o, []*caller{{options: &o, conn: client, in: make([]byte, readBuffer)}})
		if err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); result.Requests != 7 || came != 12 {
			t.Errorf("%d of %d requests count, want 7 of 12", result.Requests, came)
		}
	})
}

func TestASlowServerIsMeasuredToo(t *testing.T) {
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		w.Header().Set("Content-Length", "0")
	})
	o.Warmup, o.Duration = time.Millisecond, time.Millisecond
	result, err := Run(t.Context(), o)
	if err != nil || result.Requests != o.Connections {
		t.Errorf("%d requests count, want %d (%v)", result.Requests, o.Connections, err)
	}
	if most := float64(o.Connections) * 50; result.PerSecond > most {
		t.Errorf("%v/s, and %v is the most", result.PerSecond, most)
	}
}

func TestOneRefusalEndsTheRun(t *testing.T) {
	var came atomic.Int32
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if came.Add(1) == 50 {
			w.WriteHeader(http.StatusInsufficientStorage)
		}
		w.Header().Set("Content-Length", "0")
	})
	o.Duration = time.Minute
	if _, err := Run(t.Context(), o); err == nil || strings.Count(err.Error(), "507") != 1 {
		t.Errorf("error %v, want one that tells of the refusal once", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var came atomic.Int32
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if came.Add(1) == 10 {
			cancel()
		}
		w.Header().Set("Content-Length", "0")
	})
	o.Duration = time.Minute
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
