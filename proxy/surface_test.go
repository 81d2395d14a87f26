package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

func wantLogged(t *testing.T, s *sidecar, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(s.log.String(), part) {
			t.Errorf("the log does not contain %q:\n%s", part, s.log)
		}
	}
}

func wantNotLogged(t *testing.T, s *sidecar, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(s.log.String(), part) {
			t.Errorf("the log contains %q:\n%s", part, s.log)
		}
	}
}

func TestTheOwnSurfacesMethodsAndPaths(t *testing.T) {
	s := newSidecar(t)
	for path, allow := range map[string]string{
		"status": "GET", "pending": "GET", "dead-letters": "GET", "metrics": "GET", "livez": "GET", "readyz": "GET", "export": "GET",
		"flush": "POST", "import": "POST", "receipts/7": "GET", "dead-letters/7": "GET, DELETE", "dead-letters/7/retry": "POST",
		"dead-letters/retry": "POST",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"} {
			w := s.do(method, "/_botwired/"+path, "")
			allowed := slices.Contains(strings.Split(allow, ", "), method) || method == "HEAD" && strings.HasPrefix(allow, "GET")
			if refused := w.Code == http.StatusMethodNotAllowed; refused == allowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
			if !allowed {
				wantHeader(t, w, "Allow", allow)
			}
		}
	}
	for _, path := range []string{"nothing", "status/", "Status", "dead-letters/", "dead-letters/x", "dead-letters/-1", "dead-letters/x/retry", "receipts/", "receipts/x", "receipts/-1", "receipts/1/"} {
		wantDetail(t, s.get("/_botwired/"+path), http.StatusNotFound)
	}
	if len(s.passed) > 0 {
		t.Errorf("passed on: %q", s.passed)
	}
}

func TestBadParametersAreRefusedWithWhatIsAccepted(t *testing.T) {
	s := newSidecar(t)
	for _, text := range []string{"x", "-1s", "61m", "3601", "1e9", "NaN", "Inf", "-5"} {
		wantDetail(t, s.do(http.MethodPost, "/_botwired/flush?timeout="+text, ""), http.StatusBadRequest, "30s", "0 to 1h")
	}
	wantDetail(t, s.do(http.MethodPost, "/_botwired/flush?now=soon", ""), http.StatusBadRequest, "true or false")
	for _, text := range []string{"30s", "1.5", "0", "3600", "1h"} {
		wantStatus(t, s.do(http.MethodPost, "/_botwired/flush?timeout="+text, ""), http.StatusOK)
	}
	for _, text := range []string{"x", "0", "-1", "10001", "1.5"} {
		wantDetail(t, s.get("/_botwired/pending?limit="+text), http.StatusBadRequest, "from 1 to 10000")
		wantDetail(t, s.get("/_botwired/dead-letters?limit="+text), http.StatusBadRequest, "from 1 to 10000")
	}
	for _, text := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		wantDetail(t, s.get("/_botwired/dead-letters?after="+text), http.StatusBadRequest, "id of a dead letter")
	}
	for _, target := range []string{"/_botwired/pending?namespace=a%20b", "/_botwired/pending?namespace=a/b"} {
		wantDetail(t, s.get(target), http.StatusBadRequest, "1-64 alphanumeric")
	}
	wantStatus(t, s.do(http.MethodPost, "/_botwired/flush?namespace=a%20b", ""), http.StatusBadRequest)
	for _, query := range []string{"namespace=a%", "namespace=a;now=true", "namespace=%zz"} { // these would read as if not given
		for _, path := range []string{"flush", "dead-letters/retry"} {
			wantDetail(t, s.do(http.MethodPost, "/_botwired/"+path+"?"+query, ""), http.StatusBadRequest, "query")
		}
		wantDetail(t, s.get("/_botwired/pending?"+query), http.StatusBadRequest, "query")
	}
}

// An unset variable in a script, or a wrong parameter name, does not mean all namespaces.
func TestParametersThatWouldCountForNothing(t *testing.T) {
	s := newSidecar(t)
	s.deadLetter(id("n", "k"), "secret-value")
	for _, test := range []struct{ method, target, expected string }{
		{"POST", "flush?namespace=", "or no such parameter for all namespaces"},
		{"POST", "flush?namespace&now=true", "expected the name of a namespace"},
		{"POST", "dead-letters/retry?namespace=", "expected the name of a namespace"},
		{"GET", "pending?namespace=", "expected the name of a namespace"},
		{"GET", "export", "the parameter namespace is missing"},
		{"GET", "export?namespace=", "the parameter namespace is missing or empty"},
		{"GET", "export?namespace=n&namespace=m", "namespace is given 2 times: expected once"},
		{"POST", "flush?ns=n", `"ns": expected namespace, timeout, now`},
		{"POST", "flush?namespace=n&namespace=m", "namespace is given 2 times: expected once"},
		{"POST", "dead-letters/retry?ns=n", `"ns": expected namespace`},
		{"GET", "pending?ns=n", `"ns": expected namespace, limit`},
		{"GET", "dead-letters?namespace=n", `"namespace": expected limit, after`},
		{"POST", "dead-letters/1/retry?namespace=n", `"namespace": expected force`},
		{"POST", "dead-letters/1/retry?force=yes", `force="yes": expected true or false`},
		{"GET", "dead-letters/1?namespace=n", `"namespace": expected none`},
		{"DELETE", "dead-letters/1?namespace=n", `"namespace": expected none`},
		{"GET", "status?namespace=n", `"namespace": expected namespaces`},
		{"GET", "status?namespaces=many", `namespaces="many": expected a whole number from 0 to 10000`},
		{"GET", "entries", "the parameter namespace is missing"},
		{"GET", "entries?namespace=n&prefix=a/b", "key"},
		{"GET", "namespaces?limit=1001", `limit="1001": expected a whole number from 1 to 1000`},
		{"POST", "forget?namespace=n&key=", "namespace and key"},
		{"POST", "forget?namespace=*&key=k", "namespace"},
		{"POST", "restore?namespace=", "expected the name of a namespace"},
		{"POST", "restore?namespace=*&timeout=1s", "timeout is for one namespace"},
		{"POST", "restore", "the parameter namespace is missing"},
		{"POST", "restore?namespace=n&stop=true", `"stop": expected namespace, key, timeout`},
		{"GET", "history?namespace=n", `"namespace": expected none`},
		{"HEAD", "history?" + strings.Repeat("x", 1000), `": expected none`},
	} {
		w := s.do(test.method, "/_botwired/"+test.target, "")
		if wantDetail(t, w, http.StatusBadRequest, test.expected); w.Body.Len() > 200 {
			t.Errorf("%s: %s", test.target, w.Body)
		}
	}
	if n := s.journal.Stats().DeadLetters; n != 1 || s.journal.Stats().Pending != 0 {
		t.Errorf("%d dead letters are left", n)
	}
	for _, path := range []string{"livez", "readyz", "metrics"} { // probes and scrapers send any parameters
		wantStatus(t, s.get("/_botwired/"+path+"?at=1&at=2"), http.StatusOK)
	}
}

func TestStatus(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.put(id("b", "k"), "v")
		time.Sleep(90 * time.Second)
		s.put(id("locked", "k"), "v")
		s.upstream.setDown(true)
		var got api.Status
		w := s.get("/_botwired/status")
		decode(t, w, &got)
		until := time.Unix(2e9, 0).UTC()
		want := api.Status{
			Version: "1.2.3", Ready: true,
			Upstream: api.UpstreamState{URL: "http://upstream.example", State: "down", Since: time.Unix(2e9, 0).UTC(), Reason: "connection refused",
				Concurrency: api.Concurrency{Limit: 16, Now: 9, Reason: "upstream is slow"}},
			Pending: 2, PendingBytes: 137, OldestPendingSeconds: 90, LastSeq: 2, UptimeSeconds: 90, NamespacesTotal: 2,
			Namespaces: []api.NamespaceStatus{
				{Namespace: "b", Pending: 1, PendingBytes: 66 + 1, OldestPendingSeconds: 90},
				{
					Namespace: "locked", Pending: 1, PendingBytes: 71 + 1, Paused: "HTTP 401",
					Waits: &api.Wait{Why: "paused: HTTP 401", Until: &until},
				},
			},
		}
		sizes := cmpopts.IgnoreFields(api.Status{}, "PendingBytes", "Summary", "StartedAt", "Figures", "Callers")
		if diff := cmp.Diff(want, got, sizes, cmpopts.IgnoreFields(api.NamespaceStatus{}, "PendingBytes")); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		wantHeader(t, w, "Cache-Control", "no-store")
		s.upstream.setDown(false)
		decode(t, s.get("/_botwired/status"), &got)
		if got.Upstream.State != "up" {
			t.Errorf("upstream is %q", got.Upstream.State)
		}
	})
}

// The status shows quotas, even of namespaces without pending writes, and null for others.
func TestStatusShowsQuotas(t *testing.T) {
	resets := time.Unix(2e9, 0).UTC()
	runsOut := resets.Add(-time.Hour)
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Quotas = func() map[string]api.Quota {
			return map[string]api.Quota{
				"idle": {Limit: 1000, Used: 3, Left: 997, ResetsAt: resets, LingerSeconds: 0.1},
				"n":    {Limit: 60, Used: 60, ResetsAt: resets, LingerSeconds: 60},
				"soon": {Limit: 60, Used: 57, Left: 3, ResetsAt: resets, RunsOutAt: &runsOut},
			}
		}
	})
	s.put(id("n", "k"), "v")
	s.put(id("other", "k"), "v")
	var got struct{ Namespaces []map[string]any }
	decode(t, s.get("/_botwired/status"), &got)
	quota := func(limit, used, left, linger float64) map[string]any {
		return map[string]any{
			"limit": limit, "used": used, "left": left, "resets_at": "2033-05-18T03:33:20Z", "linger_seconds": linger,
			"runs_out_at": nil,
		}
	}
	soon := quota(60, 57, 3, 0)
	soon["runs_out_at"] = "2033-05-18T02:33:20Z"
	want := []map[string]any{quota(1000, 3, 997, 0.1), quota(60, 60, 0, 60), nil, soon}
	for i, name := range []string{"idle", "n", "other", "soon"} {
		if n := got.Namespaces[i]; n["namespace"] != name {
			t.Errorf("namespace %d is %v, want %s", i, n["namespace"], name)
		}
		q, _ := got.Namespaces[i]["quota"].(map[string]any)
		if diff := cmp.Diff(want[i], q); diff != "" {
			t.Errorf("quota of %s (-want +got):\n%s", name, diff)
		}
	}
}

// Just after a start the index is not complete: status waits a moment for it, and then says that it is not.
func TestStatusWaitsForTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		s := newSidecar(t, func(o *journal.Options, _ *proxy.Options) { o.FS = disk })
		s.put(id("n", "k"), "v")
		s.server.Close()
		if err := s.journal.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := journal.Open(journal.Options{Dir: "journal", FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		s.opts.Journal = again
		if s.server, err = proxy.New(s.opts); err != nil {
			t.Fatal(err)
		}
		defer s.server.Close()
		var got api.Status
		began := time.Now()
		decode(t, s.get("/_botwired/status"), &got)
		if waited := time.Since(began); !got.Rebuilding || waited != indexPatience {
			t.Errorf("without an index: %+v after %v", got, waited)
		}
		answer := s.begin(http.MethodGet, "/_botwired/status", "")
		synctest.Wait()
		if err := again.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		decode(t, <-answer, &got)
		if got.Rebuilding || got.Pending != 1 {
			t.Errorf("with it: %+v", got)
		}
	})
}

func TestPendingIsListedOldestFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.put(id("n", "tried"), "secret-value")
		time.Sleep(time.Second)
		s.put(id("n", "fresh"), "v")
		s.put(id("m", "other"), "v")
		var got struct{ Pending []api.PendingWrite }
		decode(t, s.get("/_botwired/pending?namespace=n"), &got)
		due := time.Unix(2e9, 0).UTC()
		want := []api.PendingWrite{
			{Seq: 1, Namespace: "n", Key: "tried", Op: "put", Bytes: 12, Attempts: 3, LastError: "no answer in time", NextAttempt: &due},
			{Seq: 2, Namespace: "n", Key: "fresh", Op: "put", Bytes: 1},
		}
		if diff := cmp.Diff(want, got.Pending, cmpopts.IgnoreFields(api.PendingWrite{}, "WrittenAt", "Since")); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		s.put(id("n", "tried"), "again")
		decode(t, s.get("/_botwired/pending?limit=1"), &got)
		if first := got.Pending[0]; first.Key != "tried" || first.WrittenAt-first.Since < 1 {
			t.Errorf("a write that replaces another waits since %v: %+v", first.Since, first)
		}
		decode(t, s.get("/_botwired/pending?limit=1"), &got)
		if len(got.Pending) != 1 || strings.Contains(s.get("/_botwired/pending").Body.String(), "secret-value") {
			t.Errorf("%d listed, or a value shown", len(got.Pending))
		}
	})
}

func TestFlush(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.put(id("n", "k"), "v")
		s.flusher.stuck = true
		began := time.Now()
		w := s.do(http.MethodPost, "/_botwired/flush?namespace=n&timeout=3", "")
		wantStatus(t, w, http.StatusGatewayTimeout)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		var got api.Flushed
		decode(t, w, &got)
		if diff := cmp.Diff(api.Flushed{Pending: 1}, got); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		s.put(id("locked", "k"), "v")
		decode(t, s.do(http.MethodPost, "/_botwired/flush?now=true&timeout=3", ""), &got)
		until := time.Unix(2e9, 0).UTC()
		wait := api.NamespaceWait{Namespace: "locked", Wait: api.Wait{Why: "paused: HTTP 401", Until: &until}}
		if diff := cmp.Diff(api.Flushed{Pending: 2, Waits: []api.NamespaceWait{wait}}, got, cmp.AllowUnexported(api.NamespaceWait{})); diff != "" {
			t.Errorf("why it waits (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{""}, s.flusher.tried); diff != "" {
			t.Errorf("tried at once (-want +got):\n%s", diff)
		}
		s.settle(id("locked", "k"))
		got = api.Flushed{}
		s.flusher.stuck = false
		w = s.do(http.MethodPost, "/_botwired/flush", "")
		wantStatus(t, w, http.StatusOK)
		decode(t, w, &got)
		if diff := cmp.Diff(api.Flushed{Settled: 1}, got); diff != "" {
			t.Errorf("flushed (-want +got):\n%s", diff)
		}
	})
}

func TestMetrics(t *testing.T) {
	s := newSidecar(t)
	s.put(id("n", "k"), "v")
	s.get("/memory/n/k")
	s.get("/memory/n/absent")
	s.get("/memory/bad%20name/k")
	s.upstream.setDown(true)
	s.get("/memory/n/unknown")
	s.get("/health")
	text := s.get("/_botwired/metrics").Body.String()
	for _, line := range []string{
		`botwired_request_seconds_count{operation="put",outcome="acknowledged"} 1`,
		`botwired_request_seconds_count{operation="get",outcome="pending"} 1`,
		`botwired_request_seconds_count{operation="get",outcome="miss"} 1`,
		`botwired_request_seconds_count{operation="get",outcome="refused"} 1`,
		`botwired_request_seconds_count{operation="get",outcome="unavailable"} 1`,
		"botwired_forwarded_requests_total 1", "botwired_failed_requests_total 0",
		"botwired_pending 1", "botwired_upstream_up 0", "botwired_upstream_concurrency 9",
		"botwired_dead_letters 0", "botwired_open_dead_letters 0",
		"botwired_damaged_files 0",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, text)
		}
	}
}

// Values never reach the log, not even those of refused or failing writes.
func TestNoValueReachesTheLog(t *testing.T) {
	s := newSidecar(t)
	const marker = "marker-of-a-value"
	s.put(id("n", "k"), marker)
	s.get("/memory/n/k")
	s.do(http.MethodPut, "/memory/n/k", `{"value":["`+marker+`"]}`)
	s.do(http.MethodPut, "/memory/n/k", `{"value":"`+marker)
	s.do(http.MethodPut, "/memory/n/"+strings.Repeat("k", 200), putBody(marker))
	s.settle(id("n", "k"))
	wantNotLogged(t, s, marker)
}
