package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/mcp"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is upstream: BotWire's memory service, which can be down or refuse writes.
type service struct {
	listener *pipe.Listener
	down     atomic.Bool
	refuses  atomic.Bool
	answers  atomic.Int32 // the status of every answer, with a detail, unless 0
}

func newService(t *testing.T) *service {
	keeper, err := selfhost.Open(t.Context(), selfhost.Options{Path: filepath.Join(t.TempDir(), "memory.db"), Version: "1", Logger: slog.New(slog.DiscardHandler)})
	noError(t, err)
	s := &service{listener: pipe.Listen()}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(s.answers.Load()); status != 0 {
			wire.Detail(status, "S0 it is").Write(w)
			return
		}
		if s.refuses.Load() && r.Method == http.MethodPut {
			wire.Detail(http.StatusUnprocessableEntity, "upstream does not like it").Write(w)
			return
		}
		keeper.Handler().ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(s.listener) }()
	t.Cleanup(func() { noError(t, errors.Join(server.Close(), keeper.Close())) })
	return s
}

func (s *service) dial(ctx context.Context) (net.Conn, error) {
	if s.down.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return s.listener.Dial(ctx)
}

// daemon is a real daemon except for its disk and address.
type daemon struct {
	t        *testing.T
	server   *proxy.Server
	address  *httptest.Server
	flusher  *flush.Flusher
	upstream *service
	state    atomic.Pointer[api.UpstreamState] // as the status has it
	log      *logged
}

// upstreamIs sets the state of upstream as health reports it.
func (d *daemon) upstreamIs(state api.UpstreamState) {
	d.state.Store(&state)
	d.server.UpstreamChanged(state)
}

type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newDaemon wires a daemon as the command does.
func newDaemon(t *testing.T) *daemon {
	d := &daemon{t: t, upstream: newService(t), log: &logged{}}
	logger := slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	memory, err := cache.New(8 << 20)
	noError(t, err)
	kept, err := journal.Open(journal.Options{Dir: "data", FS: vfs.NewMem(), MaxBytes: 4 << 20, Logger: logger})
	noError(t, err)
	engine := botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: "localhost"}, Timeout: 10 * time.Second, Concurrency: 8, UserAgent: "test", Dial: d.upstream.dial,
	})
	health := upstream.NewHealth(upstream.HealthOptions{BackoffInitial: time.Millisecond, BackoffMax: 10 * time.Millisecond, Logger: logger})
	slots := limit.NewSlots(8)
	d.flusher = flush.New(flush.Options{
		Journal: kept, Engine: engine, Health: health, Slots: slots, LateWindow: time.Millisecond,
		FenceJournal: kept.Fence,
		Linger:       func(string) time.Duration { return time.Minute }, BackoffInitial: time.Millisecond, BackoffMax: 10 * time.Millisecond,
		Logger: logger, OnSettled: func(w journal.Write) { d.server.Settled(w) },
	})
	kept.Subscribe(func(c journal.Change) {
		memory.Changed(c.Namespace, c.Key)
		d.flusher.Changed(c)
		d.server.Changed(c)
	})
	reader := upstream.NewReader(upstream.ReaderOptions{
		Engine: engine, Health: health, Slots: slots, Patience: 5 * time.Second, BackoffInitial: time.Millisecond, BackoffMax: 10 * time.Millisecond,
	})
	opts := proxy.Options{Forward: http.NotFoundHandler()}
	opts.Journal, opts.Cache, opts.Upstream, opts.Flusher, opts.Logger = kept, memory, reader, d.flusher, logger
	opts.Policy = func(string) cache.Policy {
		return cache.Policy{FreshFor: time.Hour, AbsentFor: time.Hour, StaleIfError: cache.Forever}
	}
	d.state.Store(&api.UpstreamState{State: "up"})
	opts.UpstreamState = func() api.UpstreamState { return *d.state.Load() }
	opts.WriteThrough, opts.ConfirmWithin = func(namespace string) bool { return namespace == "through" }, 50*time.Millisecond
	opts.ReadsRefused, opts.Metrics = reader.Refused, metrics.New(metrics.Build{})
	d.server, err = proxy.New(opts)
	noError(t, err)
	d.address = httptest.NewServer(d.server)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	noError(t, kept.Run(ctx))
	running.Go(func() { _ = d.flusher.Run(ctx) })
	t.Cleanup(func() {
		d.server.Close()
		d.address.Close()
		stop()
		running.Wait()
		engine.Close()
		noError(t, kept.Close())
		memory.Close()
	})
	return d
}

// flush sends everything that is pending.
func (d *daemon) flush() {
	d.t.Helper()
	_, _, _, err := d.flusher.Flush(d.t.Context(), "")
	noError(d.t, err)
}

// serve offers the daemon's memory over MCP.
func (d *daemon) serve(adjust ...func(*mcp.Options)) *mcp.Server {
	transport := api.Transport(d.address.Listener.Addr().String())
	transport.DisableKeepAlives = true
	o := mcp.Options{Daemon: api.Options{Transport: transport}, Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(d.log, nil))}
	for _, a := range adjust {
		a(&o)
	}
	return mcp.New(o)
}

// client is the SDK's client, over one of the transports.
type client struct {
	t       *testing.T
	session *sdk.ClientSession
	results map[string]*jsonschema.Resolved // by tool; nil until the first call
}

// overHTTP returns a client of the streamable HTTP transport.
func (d *daemon) overHTTP(s *mcp.Server) *client {
	endpoint := httptest.NewServer(s.Handler())
	own := &http.Client{Transport: &http.Transport{}}
	d.t.Cleanup(func() { own.CloseIdleConnections(); endpoint.Close() })
	return d.connect(&sdk.StreamableClientTransport{Endpoint: endpoint.URL, HTTPClient: own, MaxRetries: -1})
}

// overStdio returns a client of the stdio transport.
func (d *daemon) overStdio(s *mcp.Server) *client {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(ctx, in, out) }()
	d.t.Cleanup(func() {
		_ = toServer.Close()
		if err := <-ended; err != nil {
			d.t.Errorf("stdio ended with %v", err)
		}
		stop()
		_ = out.Close()
	})
	return d.connect(&sdk.IOTransport{Reader: fromServer, Writer: toServer})
}

func (d *daemon) connect(transport sdk.Transport) *client {
	d.t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(d.t.Context(), transport, nil)
	noError(d.t, err)
	c := &client{t: d.t, session: session}
	d.t.Cleanup(func() { _ = c.session.Close() }) // the other side may have ended it
	return c
}

// roundTrip is a fake daemon.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type args = map[string]any

// call calls a tool, which must succeed, and decodes its result.
func (c *client) call(tool string, with, into any) {
	c.t.Helper()
	result, text := c.ask(tool, with)
	if result.IsError {
		c.t.Fatalf("%s: %s", tool, text)
	}
	structured, err := json.Marshal(result.StructuredContent)
	noError(c.t, err)
	var one, other any
	noError(c.t, errors.Join(json.Unmarshal(structured, &one), json.Unmarshal([]byte(text), &other)))
	if a, b := mustMarshal(one), mustMarshal(other); a != b {
		c.t.Errorf("%s: the text is %s, and the structure %s", tool, b, a)
	}
	noError(c.t, json.Unmarshal(structured, into))
}

// readAll reads a value to its end.
func (c *client) readAll(namespace, key string) string {
	c.t.Helper()
	var value strings.Builder
	for offset := 0; ; {
		var r read
		c.call("memory_read", args{"namespace": namespace, "key": key, "offset": offset}, &r)
		value.WriteString(r.Value)
		if offset = r.Next; offset == 0 {
			return value.String()
		}
	}
}

func mustMarshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// ask calls a tool, which may fail.
func (c *client) ask(tool string, with any) (*sdk.CallToolResult, string) {
	c.t.Helper()
	result, err := c.session.CallTool(c.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: with})
	noError(c.t, err)
	if n := tokensOf(c.t, result); n > 25_000 {
		c.t.Errorf("%s has an answer of %d tokens", tool, n)
	}
	if len(result.Content) != 1 {
		c.t.Fatalf("%s has %d contents", tool, len(result.Content))
	}
	if !result.IsError {
		c.validate(tool, result.StructuredContent)
	}
	return result, result.Content[0].(*sdk.TextContent).Text
}

// validate holds a result to the schema of its tool, as other clients do: they refuse what the schema lacks.
func (c *client) validate(tool string, result any) {
	c.t.Helper()
	if c.results == nil {
		listed, err := c.session.ListTools(c.t.Context(), nil)
		noError(c.t, err)
		c.results = make(map[string]*jsonschema.Resolved)
		for _, each := range listed.Tools {
			var schema jsonschema.Schema
			noError(c.t, json.Unmarshal([]byte(mustMarshal(each.OutputSchema)), &schema))
			c.results[each.Name], err = schema.Resolve(nil)
			noError(c.t, err)
		}
	}
	if err := c.results[tool].Validate(result); err != nil {
		c.t.Errorf("%s: the result does not match the tool's schema: %v", tool, err)
	}
}

// tokensOf returns what an answer may cost a model, text and structured content: a token is 3 characters of ASCII, or
// one other.
func tokensOf(t *testing.T, result *sdk.CallToolResult) int {
	t.Helper()
	text, err := json.Marshal(result)
	noError(t, err)
	ascii, others := 0, 0
	for _, c := range string(text) {
		if c < utf8.RuneSelf {
			ascii++
		} else {
			others++
		}
	}
	return ascii/3 + others
}

// refused calls a tool, whose error must contain all parts.
func (c *client) refused(tool string, with any, parts ...string) string {
	c.t.Helper()
	result, text := c.ask(tool, with)
	if !result.IsError {
		c.t.Fatalf("%s succeeded: %s", tool, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			c.t.Errorf("%s says %q, without %q", tool, text, part)
		}
	}
	return text
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
