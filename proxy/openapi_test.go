package proxy_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/proxy/memory"
)

// A caller gets the description with the daemon's version, and a 304 the next time.
func TestTheDescription(t *testing.T) {
	s := newSidecar(t)
	w := s.get("/_botwired/openapi.json")
	wantStatus(t, w, http.StatusOK)
	wantHeader(t, w, "Content-Type", "application/json")
	var doc struct {
		OpenAPI string
		Info    struct{ Version string }
		Servers []struct{ URL string }
	}
	decode(t, w, &doc)
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != "1.2.3" || len(doc.Servers) != 1 || doc.Servers[0].URL != "/" {
		t.Errorf("%+v", doc)
	}
	again := s.get("/_botwired/openapi.json", "If-None-Match", w.Header().Get("Etag"))
	wantStatus(t, again, http.StatusNotModified)
	if again.Body.Len() > 0 {
		t.Errorf("a 304 has a body: %s", again.Body)
	}
	wantStatus(t, s.get("/_botwired/openapi.json", "If-None-Match", `"another"`), http.StatusOK)
	wantStatus(t, s.get("/_botwired/openapi.json", "If-None-Match", "another"), http.StatusBadRequest)
	wantStatus(t, s.do(http.MethodHead, "/_botwired/openapi.json", ""), http.StatusOK)
}

// target returns a request target that the operation accepts.
func (op *describedOperation) target() string {
	names := strings.NewReplacer("{namespace}", "n", "{key}", "k", "{id}", "1", "{seq}", "1")
	target, glue := names.Replace(op.path), "?"
	for _, each := range elements(op.node["parameters"]) {
		p := each.(map[string]any)
		if required, _ := p["required"].(bool); p["in"] == "query" && required {
			value, ok := p["example"].(string)
			if !ok {
				value = "n"
			}
			target, glue = target+glue+p["name"].(string)+"="+value, "&"
		}
	}
	return target
}

// ask makes a request that the operation accepts.
func (s *sidecar) ask(handler http.Handler, op *describedOperation, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.t.Context(), strings.ToUpper(op.method), op.target(), strings.NewReader(putBody("v")))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.serve(handler, w, r)
	return w
}

// Every operation demands the token, unless described otherwise, and refuses other sites' pages. As the
// daemon stops, each answers 503.
func TestEveryOperationRefusesAsDescribed(t *testing.T) {
	s := newSidecar(t)
	guarded := guard.New(guard.Options{
		Token: "secret", AnyHost: true,
		TokenExempt: func(r *http.Request) bool {
			return r.URL.Path == "/_botwired/livez" || r.URL.Path == "/_botwired/readyz"
		},
	}, s.server)
	s.server.Close()
	for _, op := range described().operations {
		open := op.node["security"] != nil && len(elements(op.node["security"])) == 0
		wantStatus(t, s.ask(guarded, op, "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
		if w := s.ask(guarded, op); (w.Code == http.StatusUnauthorized) == open {
			t.Errorf("%s %s without a token: %d", op.method, op.path, w.Code)
		}
		wantStatus(t, s.ask(guarded, op, "Authorization", "Bearer secret"), http.StatusServiceUnavailable)
	}
}

// A fault of the daemon is described too.
func TestAFaultIsAnsweredAsDescribed(t *testing.T) {
	s := newSidecar(t)
	s.upstream.panics = "a fault"
	wantDetail(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k", putBody("t")), http.StatusInternalServerError, "log")
}

// A full disk refuses everything that would write.
func TestAFullDiskIsAnsweredAsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fillingDisk{}
		s := newSidecar(t, func(o *journal.Options, _ *proxy.Options) { disk.FS, o.FS, o.DiskReserve = o.FS, disk, 1<<20 })
		s.put(id("n", "refused"), "v")
		first, _, err := s.journal.Newest(id("n", "refused"))
		noError(t, err)
		noError(t, s.journal.DeadLetter(first, journal.Failure{Status: http.StatusBadRequest, Reason: "no"}))
		s.put(id("n", "k"), "v")
		disk.full.Store(true)
		time.Sleep(time.Second) // the journal notices it
		for target, method := range map[string]string{
			"/memory/n/other": http.MethodPut, "/memory/n/k": http.MethodDelete, "/_botwired/append?namespace=n&key=k": http.MethodPost,
			"/_botwired/dead-letters/1/retry": http.MethodPost, "/_botwired/dead-letters/retry": http.MethodPost,
		} {
			wantDetail(t, s.do(method, target, putBody("v")), http.StatusInsufficientStorage, "nothing of it is kept")
		}
		s.upstream.setDown(true)
		wantStatus(t, s.get("/_botwired/status"), http.StatusOK)
	})
}

// A body that does not come, or is too large, gets the same answer wherever a body is read.
func TestBodiesAreRefusedAsDescribed(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) { o.MCP = http.NotFoundHandler() })
	for target, method := range map[string]string{
		"/memory/n/k": http.MethodPut, "/_botwired/import": http.MethodPost,
		"/_botwired/append?namespace=n&key=k": http.MethodPost, "/_botwired/mcp": http.MethodPost,
	} {
		w := httptest.NewRecorder()
		s.serve(s.server, w, httptest.NewRequestWithContext(t.Context(), method, target, iotest.ErrReader(os.ErrDeadlineExceeded)))
		wantStatus(t, w, http.StatusRequestTimeout)
		wantStatus(t, s.do(method, target, strings.Repeat("x", wire.MaxBodyBytes+1)), http.StatusRequestEntityTooLarge)
	}
}

// The status is as described in every state.
func TestStatusesAreAsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Pointer[api.UpstreamState]
		now.Store(&api.UpstreamState{State: "degraded", Since: time.Now(), Reason: "HTTP 502"})
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
			o.UpstreamState = func() api.UpstreamState { return *now.Load() }
		})
		s.run()
		time.Sleep(2 * time.Second) // the history looks at it
		wantStatus(t, s.get("/_botwired/status"), http.StatusOK)
		now.Store(&api.UpstreamState{State: "down", Since: time.Now(), Reason: "refused"})
		time.Sleep(2 * time.Second)
		wantStatus(t, s.get("/_botwired/status"), http.StatusOK)
		w := s.get("/_botwired/history")
		wantStatus(t, w, http.StatusOK)
		if !strings.Contains(w.Body.String(), `"refused"`) {
			t.Errorf("no outage is shown: %s", w.Body)
		}
	})
}

func TestParametersThatAreMissing(t *testing.T) {
	s := newSidecar(t)
	for _, op := range described().operations {
		if target, query, ok := strings.Cut(op.target(), "?"); ok {
			w := s.do(strings.ToUpper(op.method), target, "")
			wantDetail(t, w, http.StatusBadRequest, strings.Split(query, "=")[0])
		}
	}
}

// Each way in which the monitor says how a request was answered is described.
func TestTheMonitorsWordsAreDescribed(t *testing.T) {
	words := []string{"", "disk", "refused", "failed", "settled", "superseded", "dead"}
	for from := range memory.Sources {
		words = append(words, (&memory.Result{Read: true, Source: from}).How())
	}
	for _, word := range words {
		data, err := json.Marshal(api.AnsweredRequest{Method: "GET", Path: "/memory/n/k", Status: http.StatusOK, Answered: word, At: 1e9})
		noError(t, err)
		if err := described().checkEvent("/_botwired/monitor", sse.Event{Name: eventRequest, Data: data}); err != nil {
			t.Errorf("%s: %v", cmp.Or(word, "a redirect"), err)
		}
	}
}

// Compressed answers are described.
func TestCompressedMetrics(t *testing.T) {
	s := newSidecar(t)
	for _, path := range []string{"/metrics", "/_botwired/metrics"} {
		wantHeader(t, s.get(path, "Accept-Encoding", "gzip"), "Content-Encoding", "gzip")
	}
}
