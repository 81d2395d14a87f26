package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWanted(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, row := range []struct {
		environment map[string]string
		wanted, ok  bool
	}{
		{nil, false, true},
		{map[string]string{endpoint: "http://127.0.0.1:4318"}, true, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"}, true, true},
		{map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "True"}, false, true},
		{map[string]string{endpoint: "http://c", "OTEL_TRACES_EXPORTER": "none"}, false, true},
		{map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true, true},
		{map[string]string{endpoint: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, false},
		{map[string]string{endpoint: "collector:4318"}, false, false},
		{map[string]string{endpoint: "unix:///tmp/s"}, false, false},
	} {
		wanted, err := Wanted(func(name string) string { return row.environment[name] })
		if wanted != row.wanted || (err == nil) != row.ok {
			t.Errorf("%v: %v, %v", row.environment, wanted, err)
		}
	}
}

// opened returns a tracer that exports to a collector, and its log.
func opened(t *testing.T, collector http.HandlerFunc) (*Tracer, *bytes.Buffer) {
	t.Helper()
	server := httptest.NewServer(collector)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
	log := new(bytes.Buffer)
	tracer, err := Open(t.Context(), "1.2.3", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return tracer, log
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func TestSpans(t *testing.T) {
	bodies := make(chan []byte, 1)
	tracer, _ := opened(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		bodies <- body
	})
	caller := trace.Context{Parent: parent, State: "vendor=1"}
	server := tracer.Start("put", "the-namespace", caller, time.Now())
	within := server.Context()
	if within == caller || !strings.Contains(within.Parent, traceID) || within.State != "vendor=1" {
		t.Errorf("in the caller's trace: %+v", within)
	}
	put := tracer.StartUpstream("put", "the-namespace", within, true)
	if strings.Contains(put.Context().Parent, traceID) {
		t.Error("a write that has waited is a part of the caller's trace")
	}
	get := tracer.StartUpstream("get", "the-namespace", within, false)
	if !strings.Contains(get.Context().Parent, traceID) {
		t.Error("a read that the caller waits for is no part of its trace")
	}
	own := tracer.Start("delete", "the-namespace", trace.Context{}, time.Now())
	if !own.Context().Given() {
		t.Error("a caller without a trace begins none")
	}
	unsampled := tracer.Start("list", "unsampled", trace.Context{Parent: strings.TrimSuffix(parent, "1") + "0"}, time.Now())
	unsampled.End("hit", false)
	server.End("acknowledged", false)
	put.End("confirmed", false)
	get.End("transient", true)
	own.End("acknowledged", false)
	tracer.Close(time.Minute)
	body := <-bodies
	for _, text := range []string{
		"botwired", "1.2.3", "upsert_memory", "search_memory", "delete_memory", "gen_ai.memory.store.id", "the-namespace",
		"acknowledged", "error.type", "transient",
	} {
		if !bytes.Contains(body, []byte(text)) {
			t.Errorf("the spans lack %s", text)
		}
	}
	if bytes.Contains(body, []byte("unsampled")) {
		t.Error("a trace that is not sampled is exported")
	}
}

// Nothing waits for a collector that does not answer.
func TestCollectorThatHangs(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT"} {
		t.Setenv(name, "3600000") // without an abort, the test hangs
	}
	release := make(chan struct{})
	tracer, _ := opened(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	for range 10_000 { // more than the queue holds
		tracer.Start("get", "n", trace.Context{}, time.Now()).End("hit", false)
	}
	tracer.Close(time.Millisecond)
	tracer.Start("get", "n", trace.Context{}, time.Now()).End("hit", false)
}

func TestCollectorThatRefuses(t *testing.T) {
	tracer, log := opened(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, strings.Repeat("no ", 1<<20))
	})
	for range 3000 {
		tracer.Start("get", "n", trace.Context{}, time.Now()).End("hit", false)
	}
	tracer.Close(time.Minute)
	if n := strings.Count(log.String(), "\n"); n != 1 || log.Len() > 4<<10 {
		t.Errorf("%d lines, %d bytes in the log", n, log.Len())
	}
}
