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

// drivers are this system's way to run a load, and that of all systems.
var drivers = map[string]func(context.Context, *Options) (*Result, error){"here": drive, "goroutines": driveGoroutines}

func TestEveryRequestIsMadeOnce(t *testing.T) {
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) { checkEveryRequest(t, drive) })
	}
}

func checkEveryRequest(t *testing.T, drive func(context.Context, *Options) (*Result, error)) {
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
	result, err := drive(t.Context(), &o)
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
		result, err := run(t.Context(), planFrom(&o), []*caller{{conn: client, in: make([]byte, readBuffer)}})
		if err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); result.Requests != 7 || came != 12 {
			t.Errorf("%d of %d requests count, want 7 of 12", result.Requests, came)
		}
	})
}

// One connection, ten requests a second apart, and a server that takes 3.5 s for the third. The
// fourth, fifth and sixth are due meanwhile, and their wait counts.
func TestAnOpenLoopCountsFromWhenARequestIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		go func() {
			defer func() { _ = server.Close() }()
			for n, b := 0, make([]byte, 1); ; n++ {
				if _, err := server.Read(b); err != nil {
					return
				}
				if n == 2 {
					time.Sleep(3500 * time.Millisecond)
				}
				_, _ = io.WriteString(server, "+OK\r\n")
			}
		}()
		samples := 0
		o := Options{
			Connections: 1, Rate: 1, Duration: 10 * time.Second, Answer: RedisAnswer,
			Request: func(dst []byte, _, _ int) []byte { return append(dst, 'x') },
			Sample:  func(int) { samples++ },
		}
		result, err := run(t.Context(), planFrom(&o), []*caller{{conn: client, in: make([]byte, readBuffer)}})
		if err != nil {
			t.Fatal(err)
		}
		// Request 2 takes 3.5 s, 3 takes 2.5, 4 takes 1.5, 5 takes 0.5, and the other six nothing.
		for percent, want := range map[float64]time.Duration{
			60: 0, 70: 500 * time.Millisecond, 80: 1500 * time.Millisecond, 90: 2500 * time.Millisecond, 100: 3500 * time.Millisecond,
		} {
			if got := result.Latency.Percentile(percent); (got - want).Abs() > want/200 {
				t.Errorf("%v %% take at most %v, want %v", percent, got, want)
			}
		}
		if result.Requests != 10 || samples != 2 || result.PerSecond != 1 {
			t.Errorf("%d requests, %v a second, and %d samples, want 10, 1 and 2", result.Requests, result.PerSecond, samples)
		}
	})
}

// A stall of 100 ms shows in the 100 requests that are due in it, not in one alone: half of them wait for
// half of it or longer.
func TestAnOpenLoopShowsAStall(t *testing.T) {
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			var came atomic.Int32
			o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if came.Add(1) == 50 {
					time.Sleep(100 * time.Millisecond)
				}
				w.Header().Set("Content-Length", "0")
			})
			o.Connections, o.Rate, o.Duration = 1, 1000, 300*time.Millisecond
			result, err := drive(t.Context(), &o)
			if err != nil {
				t.Fatal(err)
			}
			if result.Requests != 300 || came.Load() != 300 {
				t.Errorf("%d of %d requests count, and 300 were due", result.Requests, came.Load())
			}
			if slow := result.Latency.Percentile(100 * 251.0 / 300); slow < 49*time.Millisecond {
				t.Errorf("50 of 300 requests take %v or longer, want half of the stall", slow)
			}
		})
	}
}

// The requests of an open loop go to the connections in turn.
func TestAnOpenLoopUsesAllConnections(t *testing.T) {
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			var seen [4]atomic.Int32
			o := serve(t, func(w http.ResponseWriter, r *http.Request) {
				connection, _, _ := strings.Cut(r.URL.Path[1:], "/")
				i, _ := strconv.Atoi(connection)
				seen[i].Add(1)
				w.Header().Set("Content-Length", "0")
			})
			o.Rate, o.Duration = 1000, 102*time.Millisecond
			if _, err := drive(t.Context(), &o); err != nil {
				t.Fatal(err)
			}
			for i, want := range []int32{26, 26, 25, 25} {
				if got := seen[i].Load(); got != want {
					t.Errorf("connection %d made %d requests, want %d", i, got, want)
				}
			}
		})
	}
}

func TestSampleRunsBesideTheRequestsThatCount(t *testing.T) {
	var came atomic.Int32
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		came.Add(1)
		w.Header().Set("Content-Length", "0")
	})
	var sampled []int
	o.Warmup, o.Duration = 20*time.Millisecond, 20*time.Millisecond
	o.Sample = func(answered int) { sampled = append(sampled, answered) }
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(sampled) != 2 || sampled[1] < sampled[0] || sampled[1] > int(came.Load()) {
		t.Errorf("sampled %v of %d answers", sampled, came.Load())
	}
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

func TestAServerThatHangsUpEndsTheRun(t *testing.T) {
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			o := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			o.Duration = time.Minute
			if _, err := drive(t.Context(), &o); err == nil || !strings.Contains(err.Error(), "the server closed the connection") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// An answer may come in any pieces, and a second one is not taken for a part of the first.
func TestAnswersInPieces(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
	for name, drive := range drivers {
		for pieces, refused := range map[string]string{
			"HTTP/1.1 200 OK\r\nConte|nt-Length: 3\r\n\r|\nab|c": "",
			answer:       "",
			answer + "d": "1 bytes came after the answer",
		} {
			t.Run(name+pieces, func(t *testing.T) {
				o := servePieces(t, strings.Split(pieces, "|"))
				o.Requests = 3
				result, err := drive(t.Context(), &o)
				if refused == "" && (err != nil || result.Requests != 12) {
					t.Errorf("%v, %v", result, err)
				}
				if refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
					t.Errorf("error %v, want %q in it", err, refused)
				}
			})
		}
	}
}

// servePieces answers each request in pieces, each of which is a segment of its own.
func servePieces(t *testing.T, pieces []string) Options {
	t.Helper()
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for in := make([]byte, 1000); err == nil; _, err = conn.Read(in) {
			for i, piece := range pieces {
				if i > 0 {
					time.Sleep(time.Millisecond) // so that the pieces come one by one
				}
				_, _ = io.WriteString(conn, piece)
			}
		}
	})
	return o
}

// A request may be larger than what a socket takes at once.
func TestLargeRequests(t *testing.T) {
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			const size = 16 << 20
			o := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if n, err := io.Copy(io.Discard, r.Body); n != size || err != nil {
					t.Errorf("%d bytes came, and %v", n, err)
				}
				w.Header().Set("Content-Length", "0")
			})
			host, body := o.Address, strings.Repeat("x", size)
			o.Requests, o.Connections = 2, 2
			o.Request = func(dst []byte, _, _ int) []byte {
				return append(AppendBody(append(AppendPut(dst), '/'), host, size), body...)
			}
			if result, err := drive(t.Context(), &o); err != nil || result.Requests != 4 {
				t.Errorf("%v, %v", result, err)
			}
		})
	}
}

// A server that reads nothing keeps no run from its end.
func TestRunEndsWithItsContextAmidARequest(t *testing.T) {
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			deaf, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = deaf.Close() }()
			ctx, cancel := context.WithCancel(t.Context())
			o := Options{Address: deaf.Addr().String(), Connections: 1, Duration: time.Minute, Answer: HTTPAnswer}
			o.Request = func(dst []byte, _, _ int) []byte {
				cancel()
				return append(dst, make([]byte, 16<<20)...)
			}
			if _, err := drive(ctx, &o); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
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

// With a goroutine for each connection, the request of one may wait for that of another.
func TestRequestsMayWaitForEachOther(t *testing.T) {
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") })
	o.Connections, o.Requests, o.Goroutines = 2, 1, true
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it ends a hang
	defer cancel()
	request, other := o.Request, make(chan struct{})
	o.Request = func(dst []byte, connection, n int) []byte {
		if connection == 1 {
			close(other)
		}
		select {
		case <-other:
		case <-ctx.Done():
			t.Error("the request of the other connection does not come")
		}
		return request(dst, connection, n)
	}
	if result, err := Run(ctx, o); err != nil || result.Requests != 2 {
		t.Errorf("%+v, %v", result, err)
	}
}
