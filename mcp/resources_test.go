package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/botwired/botwired/mcp"
)

func (c *client) write(namespace, key, value string) {
	c.t.Helper()
	c.call("memory_write", args{"namespace": namespace, "key": key, "value": value}, &written{})
}

func (c *client) resource(uri string) string {
	c.t.Helper()
	result, err := c.session.ReadResource(c.t.Context(), &sdk.ReadResourceParams{URI: uri})
	noError(c.t, err)
	return result.Contents[0].Text
}

// Every entry is a resource, whatever the page on which it is listed.
func TestResources(t *testing.T) {
	d := newDaemon(t)
	c := d.overHTTP(d.serve())
	var want []string
	for namespace, entries := range map[string]int{"a": 99, "b": 103, "c": 1} {
		for n := range entries {
			c.write(namespace, fmt.Sprintf("%03d", n), "v")
		}
	}
	for _, namespace := range []struct {
		name    string
		entries int
	}{{"a", 99}, {"b", 103}, {"c", 1}} {
		for n := range namespace.entries {
			want = append(want, fmt.Sprintf("botwire://%s/%03d", namespace.name, n))
		}
	}
	c.write("c", "..", "dots")
	c.call("memory_delete", args{"namespace": "c", "key": "000"}, &written{})
	want[len(want)-1] = "botwire://c/.."
	var got []string
	for cursor, pages := "", 0; ; pages++ {
		page, err := c.session.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor})
		noError(t, err)
		if len(page.Resources) > 100 {
			t.Errorf("a page of %d", len(page.Resources))
		}
		for _, r := range page.Resources {
			got = append(got, r.URI)
		}
		if cursor = page.NextCursor; cursor == "" {
			if pages != 2 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, uri := range []string{"botwire://c/..", "botwire://c/%2e%2E"} {
		if text := c.resource(uri); text != "dots" {
			t.Errorf("%s is %q", uri, text)
		}
	}
	for _, uri := range []string{"botwire://c/none", "botwire://c/000", "botwire://c", "botwire://c/", "botwire://c/a/b", "botwire://c/a%2Fb", "file:///etc/passwd", "botwire:///k"} {
		if _, err := c.session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if _, err := c.session.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: "x"}); err == nil || !strings.Contains(err.Error(), "the cursor is wrong") {
		t.Error(err)
	}

	one := d.overStdio(d.serve(func(o *mcp.Options) { o.Namespace = "c" }))
	page, err := one.session.ListResources(t.Context(), nil)
	noError(t, err)
	if len(page.Resources) != 1 || page.Resources[0].URI != "botwire://c/.." {
		t.Errorf("%+v", page.Resources)
	}
	templates, err := one.session.ListResourceTemplates(t.Context(), nil)
	noError(t, err)
	if got := templates.ResourceTemplates[0].URITemplate; got != "botwire://c/{key}" {
		t.Errorf("%s", got)
	}
	if _, err := one.session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "botwire://a/001"}); err == nil {
		t.Error("another namespace is read")
	}
}

// older is the last protocol in which a client follows a resource by a request of its own.
const older = "2025-11-25"

// followers are a client of each transport and protocol that can follow resources.
func (d *daemon) followers(s *mcp.Server) map[string]*client {
	return map[string]*client{"stdio": d.overStdio(s), "stdio-older": d.overStdio(s, older), "http": d.overHTTP(s)}
}

func (c *client) follow(uris ...string) {
	c.t.Helper()
	for _, uri := range uris {
		noError(c.t, c.session.Subscribe(c.t.Context(), &sdk.SubscribeParams{URI: uri}))
		if c.session.InitializeResult().ProtocolVersion != older {
			<-c.heard
		}
	}
}

// expect waits for news of a resource.
func (f *client) expect(uri string) {
	f.t.Helper()
	select {
	case got := <-f.updated:
		if got != uri {
			f.t.Errorf("%s has changed, want %s", got, uri)
		}
	case <-time.After(10 * time.Second):
		f.t.Fatalf("nobody has told of %s", uri)
	}
}

// A client that follows a resource hears of each change, once, and of no other resource's.
func TestFollowing(t *testing.T) {
	d := newDaemon(t)
	s := d.serve()
	writer := d.overHTTP(s)
	for name, f := range d.followers(s) {
		t.Run(name, func(t *testing.T) {
			f.t = t
			key := name
			uri, escaped := "botwire://n/"+key, "botwire://%6e/last-"+name
			f.follow(uri, escaped)
			writer.write("n", key, "one")
			f.expect(uri)
			writer.write("n", "another", "one")
			d.flush() // settles, which changes nothing for a reader
			writer.call("memory_delete", args{"namespace": "n", "key": key}, &written{})
			f.expect(uri)
			d.upstream.refuses.Store(true)
			writer.write("n", key, "refused")
			f.expect(uri)
			d.flush() // it is a dead letter: readers see what was before
			f.expect(uri)
			d.upstream.refuses.Store(false)
			d.upstream.through.Store(true)
			writer.write("n", key, "through")
			f.expect(uri)
			d.upstream.through.Store(false)
			writer.write("n", "last-"+name, "one")
			f.expect(escaped)
			if len(f.updated) > 0 {
				t.Errorf("and %s", <-f.updated)
			}
		})
	}
}

// A client that gives up before the stream of events has begun takes no other client's stream.
func TestFollowingOutlivesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := make(chan struct{})
		stream, events := io.Pipe()
		s := mcp.New(mcp.Options{Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			select {
			case <-begin:
				return &http.Response{StatusCode: http.StatusOK, Body: stream}, nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})}})
		first, giveUp := context.WithCancel(t.Context())
		go s.Handler().ServeHTTP(httptest.NewRecorder(), listening(first, t, "http://localhost"))
		answer := httptest.NewRecorder()
		go s.Handler().ServeHTTP(answer, listening(t.Context(), t, "http://localhost"))
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(begin)
		for seq := range 2 { // from the first on they follow
			go fmt.Fprintf(events, "id: %d\nevent: pending\ndata: {\"seq\":%d,\"namespace\":\"n\",\"key\":\"k\"}\n\n", seq, seq)
			synctest.Wait()
		}
		s.EndStreams()
		noError(t, events.Close())
		synctest.Wait()
		s.Close()
		if body := answer.Body.String(); !strings.Contains(body, "notifications/resources/updated") {
			t.Errorf("it hears %s", body)
		}
	})
}

// A client that follows a resource hears that another host has changed it.
func TestFollowingAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, events := io.Pipe()
		s := mcp.New(mcp.Options{Client: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: stream}, nil
		})}})
		answer := httptest.NewRecorder()
		go s.Handler().ServeHTTP(answer, listening(t.Context(), t, "http://localhost"))
		synctest.Wait()
		for i, key := range []string{"other", "k"} {
			go fmt.Fprintf(events, "id: %d\nevent: changed\ndata: {\"at\":1,\"namespace\":\"n\",\"key\":%q}\n\n", i, key)
			synctest.Wait()
		}
		s.EndStreams()
		noError(t, events.Close())
		synctest.Wait()
		s.Close()
		if told := strings.Count(answer.Body.String(), "notifications/resources/updated"); told != 1 {
			t.Errorf("it hears of %d changes: %s", told, answer.Body)
		}
	})
}

// Nobody follows what is no resource, or is in another namespace, and an older client over HTTP
// hears that it cannot.
func TestFollowingIsRefused(t *testing.T) {
	d := newDaemon(t)
	c := d.overStdio(d.serve(func(o *mcp.Options) { o.Namespace = "n" }), older)
	for _, uri := range []string{"botwire://other/k", "botwire://n/", "file:///x"} {
		if err := c.session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err == nil {
			t.Errorf("%s is followed", uri)
		}
	}
	old := d.overHTTP(d.serve(), older)
	if err := old.session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "botwire://n/k"}); err == nil || !strings.Contains(err.Error(), "follow no resource over HTTP") {
		t.Error(err)
	}
	if capabilities := old.session.InitializeResult().Capabilities; capabilities.Resources.Subscribe {
		t.Errorf("%+v", capabilities.Resources)
	}
	gone := d.overStdio(d.serve(func(o *mcp.Options) { o.URL = "http://127.0.0.1:1" }), older)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := gone.session.Subscribe(ctx, &sdk.SubscribeParams{URI: "botwire://n/k"}); err == nil {
		t.Error("a daemon that is not there is followed")
	}
}

// After the stream of events was cut, whoever follows anything hears of it again, and of what comes.
func TestFollowingOverACut(t *testing.T) {
	d := newDaemon(t)
	s := d.serve()
	writer := d.overHTTP(s)
	for name, f := range d.followers(s) {
		t.Run(name, func(t *testing.T) {
			f.t = t
			uri := "botwire://n/" + name
			f.follow(uri)
			for range 3 {
				d.address.CloseClientConnections()
				writer.write("n", name, "v")
				f.expect(uri)
			}
		})
	}
}

// A server at rest does nothing: it dials nobody, and its goroutines are none.
func TestAnIdleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcp.New(mcp.Options{Client: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("it asks")
			return nil, http.ErrServerClosed
		})}})
		_ = s.Handler()
		time.Sleep(24 * time.Hour)
		s.Close()
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// As the daemon stops, the streams of those who follow resources end by themselves.
func TestStreamsEndWithTheDaemon(t *testing.T) {
	d := newDaemon(t)
	s := d.serve()
	endpoint := httptest.NewServer(s.Handler())
	t.Cleanup(endpoint.Close)
	for range 2 { // the second comes too late
		answer, err := endpoint.Client().Do(listening(t.Context(), t, endpoint.URL))
		noError(t, err)
		s.EndStreams()
		_, err = io.ReadAll(answer.Body)
		noError(t, errors.Join(err, answer.Body.Close()))
	}
}

// listening is the request for a stream that follows botwire://n/k.
func listening(ctx context.Context, t *testing.T, at string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(
		`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["botwire://n/k"]},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	noError(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		r.Header.Set(name, value)
	}
	return r
}
