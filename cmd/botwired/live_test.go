package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
)

const (
	statusAnswer = `{"version":"v1","data_dir":"/data","listen":"127.0.0.1:1","started_at":"2026-11-22T20:00:00Z","summary":{"level":"ok","text":"Everything is safe"},` +
		`"upstream":{"url":"u","state":"up"},"pending":2,"pending_bytes":10,"oldest_pending_seconds":3,"dead_letters":0,` +
		`"ready":true,"disk":{"journal_bytes":0,"copies_bytes":0,"free_bytes":1073741824},"cache":{"bytes":0,"budget":1048576},` +
		`"reads":{"total":1234567,"hits":1234000,"upstream":567},"writes":{"acknowledged":20,"sent":5,"saved":15},"time_saved_seconds":3600,"namespaces_total":2,"namespaces":[` +
		`{"namespace":"quiet","pending":0,"quota":{"limit":1000,"used":5}},` +
		`{"namespace":"busy","pending":2,"pending_bytes":10,"oldest_pending_seconds":3,"waits":{"why":"throttled: upstream answered 429","until":"2026-11-22T21:01:30Z"}}]}`
	historyAnswer = `{"step_seconds":10,"points":[{"reads":100,"writes":20,"sent":5,"local_p50_us":12,"local_p99_us":90,"upstream_p50_us":51000,"upstream_p99_us":null}],` +
		`"outages":[{"from":"2026-11-22T20:30:00Z","to":"2026-11-22T20:34:00Z","state":"down","reason":"no route"}]}`
)

// newLiveDaemon answers the requests of the live commands.
func newLiveDaemon(t *testing.T) *daemon {
	return newDaemon(t, map[string]answer{
		"GET /_botwired/status":                {200, statusAnswer},
		"GET /_botwired/status?namespaces=20":  {200, statusAnswer},
		"GET /_botwired/status?namespaces=100": {200, statusAnswer},
		"GET /_botwired/history":               {200, historyAnswer},
	})
}

// atNine makes stdout a terminal, and the time nine o'clock.
func atNine(p *cli.Program) {
	p.IsTerminal = func(stream any) bool { return stream == p.Stdout }
	p.Size = func(any) (int, int) { return 80, 24 }
	p.Now = func() time.Time { return time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC) }
}

// On a terminal, the status is one screen: the sentence first, then the figures. Times are relative.
func TestStatusOnATerminal(t *testing.T) {
	got := at(t, newLiveDaemon(t), atNine, "status")
	wantOutput(t, got, `Everything is safe

version       v1 at 127.0.0.1:1, up for 1 hour
upstream      u is not asked yet
pending       2 writes, 10B, the oldest 3s
dead letters  0
reads         1,234,567, 99.9 % answered here, 567 asked of upstream
saved         15 of 20 writes, about 1h of waiting
disk          journal 0B, copies 0B, 1.0GiB free
memory        0B of entries, at most 1.0MiB
data_dir      /data

NAMESPACE  PENDING  SIZE  OLDEST  STATE                                QUOTA
quiet      0        0B    -       -                                    5 of 1000
busy       2        10B   3s      throttled: upstream answered 429, …  -
`)
}

// status --watch draws a frame at each tick, even when the daemon is gone, and restores the terminal.
func TestWatchDrawsUntilItIsStopped(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-gone:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"detail":"it is gone"}`)
		default:
			_, _ = io.WriteString(w, statusAnswer)
		}
	})))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tick := make(chan time.Time)
	frames, out := io.Pipe()
	p := newProcess(term.Terminal{
		Environ: []string{"NO_COLOR=1", "HOME=" + homeOf(t)},
		Stdin:   strings.NewReader(""),
		Stdout:  out,
		Stderr:  io.Discard,
		Ticks:   func() (<-chan time.Time, func()) { return tick, func() {} },
	}, []string{"status", "--watch", "--listen", server.Listener.Addr().String()}, &service.Inherited{})
	atNine(p)
	code := make(chan int, 1)
	go func() {
		code <- p.Run(ctx)
		out.Close()
	}()
	drawn := bufio.NewReader(frames)
	await := func(want string) {
		t.Helper()
		for {
			line, err := drawn.ReadString('\n')
			if strings.Contains(line, want) {
				return
			}
			if err != nil {
				t.Fatalf("the frames ended before %q: %v", want, err)
			}
		}
	}
	await("Everything is safe")
	go func() { tick <- time.Time{} }()
	await("Everything is safe")
	close(gone)
	go func() { tick <- time.Time{} }()
	await("it is gone (HTTP 500)")
	cancel()
	rest, err := io.ReadAll(drawn)
	if err != nil || !strings.HasSuffix(string(rest), "\x1b[?25h\x1b[?1049l") {
		t.Errorf("it ends with %q: %v", rest, err)
	}
	if code := <-code; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	wantFailure(t, botwired(t, "status", "--watch"), cli.ExitUsage, "standard output is none")
	wantFailure(t, botwired(t, "status", "--watch", "--json"), cli.ExitUsage, "--watch is for the whole status")
}

const monitoredRequests = `event: request
data: {"at":1795381198.123,"method":"GET","path":"/memory/ns/k","namespace":"ns","key":"k","status":200,"answered":"memory","age_seconds":3,"microseconds":12,"bytes":24}

event: skipped
data: {"requests":7}

event: request
data: {"at":1795381199.123,"method":"PUT","path":"/memory/ns/k2","namespace":"ns","key":"k2","status":503,"answered":"upstream","age_seconds":null,"microseconds":51234,"bytes":5}

`

// newMonitored reports monitoredRequests and no others.
func newMonitored(t *testing.T, asked chan<- string) (address string) {
	t.Helper()
	server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.RequestURI
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, monitoredRequests)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// monitor runs the command until it has printed the given number of lines.
func monitor(t *testing.T, adjust func(*cli.Program), lines int, args ...string) (printed, stderr, target string) {
	t.Helper()
	asked := make(chan string, 1)
	address := newMonitored(t, asked)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, stdout := io.Pipe()
	var complaints strings.Builder
	p := newProcess(term.Terminal{
		Environ:    []string{"NO_COLOR=1", "HOME=" + homeOf(t)},
		Stdin:      strings.NewReader(""),
		Stdout:     stdout,
		Stderr:     &complaints,
		IsTerminal: func(any) bool { return false },
		Size:       term.SizeOf,
		Now:        time.Now,
	}, append([]string{"monitor", "--listen", address}, args...), &service.Inherited{})
	if adjust != nil {
		adjust(p)
	}
	code := make(chan int, 1)
	go func() {
		code <- p.Run(ctx)
		stdout.Close()
	}()
	scanner := bufio.NewScanner(out)
	for range lines {
		if !scanner.Scan() {
			t.Fatalf("it ends after %q", printed)
		}
		printed += scanner.Text() + "\n"
	}
	cancel()
	if code := <-code; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	return printed, complaints.String(), <-asked
}

func TestMonitorForAProgram(t *testing.T) {
	printed, stderr, target := monitor(t, nil, 2)
	want := "2026-11-22T20:59:58.123Z\tGET\t/memory/ns/k\t200\tmemory\t3\t12\t24\n" +
		"2026-11-22T20:59:59.123Z\tPUT\t/memory/ns/k2\t503\tupstream\t-\t51234\t5\n"
	if printed != want || target != "/_botwired/monitor" {
		t.Errorf("GET %s, printed\n%s", target, printed)
	}
	if stderr != "7 requests left out: they came faster than monitor shows them\n" {
		t.Errorf("stderr %q", stderr)
	}
	printed, _, target = monitor(t, nil, 2, "--json", "--namespace", "ns")
	if !strings.HasPrefix(printed, `{"at":1795381198.123,"method":"GET"`) || target != "/_botwired/monitor?namespace=ns" {
		t.Errorf("GET %s, printed\n%s", target, printed)
	}
}

func TestMonitorForAPerson(t *testing.T) {
	printed, _, _ := monitor(t, atNine, 3)
	want := "TIME          METHOD HTTP  FROM           TOOK  ENTRY\n" +
		"20:59:58.123  GET     200  memory         12µs  ns/k  age 3s  24B\n" +
		"20:59:59.123  PUT     503  upstream     51.2ms  ns/k2  5B\n"
	if printed != want {
		t.Errorf("printed\n%swant\n%s", printed, want)
	}
}

// retry --all asks first; without a terminal it needs --yes.
func TestRetryOfAllDeadLettersAsks(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/dead-letters/retry":                     {200, `{"retried":2,"skipped":0}`},
		"POST /_botwired/dead-letters/retry?namespace=elsewhere": {200, `{"retried":0,"skipped":0}`},
	})
	person := func(reply string) func(*cli.Program) {
		return func(p *cli.Program) {
			p.Stdin = strings.NewReader(reply)
			p.IsTerminal = func(stream any) bool { return stream != p.Stdout }
			p.Ticks = func() (<-chan time.Time, func()) { return nil, func() {} }
		}
	}
	got := at(t, d, person("n\n"), "dead-letters", "retry", "--all")
	if got.code != cli.ExitError || got.stdout != "" || !strings.Contains(got.stderr, "Retry all dead letters of all namespaces that upstream has refused? Each one counts against the quota. [y/N] ") {
		t.Errorf("%+v", got)
	}
	for _, agreed := range []outcome{
		at(t, d, person("y\n"), "dead-letters", "retry", "--all"),
		at(t, d, person(""), "dead-letters", "retry", "--all", "--yes"),
		at(t, d, nil, "dead-letters", "retry", "--all", "--yes"),
	} {
		if agreed.code != cli.ExitOK || agreed.stdout != "retried 2 dead letters\n" {
			t.Errorf("%+v", agreed)
		}
	}
	wantFailure(t, at(t, d, nil, "dead-letters", "retry", "--all"), cli.ExitUsage, "add --yes")
	if few := at(t, d, person("y\n"), "dead-letters", "retry", "--all", "--namespace", "elsewhere"); few.code != cli.ExitOK || !strings.Contains(few.stderr, "of the namespace elsewhere") {
		t.Errorf("%+v", few)
	}
}
