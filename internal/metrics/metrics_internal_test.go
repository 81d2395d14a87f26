package metrics

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeQuotas struct{}

func (fakeQuotas) Spent() int64 { return 7 }
func (fakeQuotas) Saved() int64 { return 3 }
func (fakeQuotas) Spread() int  { return 2 }

// someStatus returns a status with a number for each metric.
func someStatus() *api.Status {
	return &api.Status{
		Upstream: api.UpstreamState{State: "up", Concurrency: api.Concurrency{Now: 9}, Watch: &api.WatchState{CaughtUp: true, Entries: 4}},
		Namespaces: []api.NamespaceStatus{
			{Quota: &api.Quota{Limit: 100, Left: 25}}, {Quota: &api.Quota{Limit: 0, Left: 0}}, {OlderAnswers: 3, DataLoss: &api.DataLoss{}},
		},
		Summary: api.Summary{Finding: api.Finding{Kind: "data_loss"}, Also: []api.Finding{{Kind: "stopping"}}},
	}
}

// someSources returns sources with a number for each metric.
func someSources(t *testing.T) Sources {
	t.Helper()
	answers, err := cache.New(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(answers.Close)
	logger := slog.New(slog.DiscardHandler)
	j, err := journal.Open(journal.Options{Dir: "journal", FS: vfs.NewMem(), Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return Sources{
		Status: someStatus, Journal: j, Cache: answers,
		Disk:      func() (journal.DiskUsage, error) { return journal.DiskUsage{Journal: 5, Copies: 6, Free: 7}, nil },
		Quotas:    fakeQuotas{},
		Coalesced: func() int64 { return 8 },
	}
}

func shown(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestNumbersOfSources(t *testing.T) {
	from := someSources(t)
	m := New(Build{Version: "1.2.3"})
	m.Read(from)
	text := shown(m)
	for _, line := range []string{
		`botwired_build_info{goversion="",platform="",revision="",version="1.2.3"} 1`,
		"botwired_pending 0", "botwired_journal_refuses_writes 0", "botwired_upstream_up 1", "botwired_upstream_concurrency 9",
		"botwired_journal_bytes 5", "botwired_copies_bytes 6", "botwired_disk_free_bytes 7", "botwired_cache_budget_bytes 8.388608e+06",
		"botwired_watch_caught_up 1", "botwired_watch_entries 4", "botwired_coalesced_writes_total 8",
		"botwired_quota_used_total 7", "botwired_quota_saved_total 3", "botwired_quota_least_left_ratio 0.25",
		"botwired_quota_spread_namespaces 2", "botwired_quota_used_up_namespaces 1",
		"botwired_data_loss_namespaces 1", "botwired_older_answers_total 3", `botwired_finding{finding="data_loss",level="critical"} 1`,
		`botwired_finding{finding="stopping",level="notice"} 1`, `botwired_finding{finding="no_bucket",level="critical"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q in:\n%s", line, text)
		}
	}
}

// An unknown number is not shown.
func TestMissingNumbers(t *testing.T) {
	from := someSources(t)
	from.Status = func() *api.Status { return &api.Status{} }
	from.Disk = func() (journal.DiskUsage, error) { return journal.DiskUsage{Free: -1}, nil }
	m := New(Build{})
	m.Read(from)
	text := shown(m)
	if strings.Contains(text, "botwired_watch_caught_up") || strings.Contains(text, "botwired_disk_free_bytes") || !strings.Contains(text, "\nbotwired_journal_bytes 0\n") {
		t.Error(text)
	}
	from.Disk = func() (journal.DiskUsage, error) { return journal.DiskUsage{}, errors.New("closed") }
	m = New(Build{})
	m.Read(from)
	if text := shown(m); strings.Contains(text, "botwired_journal_bytes") {
		t.Error(text)
	}
}

// A Prometheus that supports native histograms gets them.
func TestNativeHistograms(t *testing.T) {
	m := New(Build{})
	series := m.Requests.Of("get", "hit")
	series.Observe(7 * time.Microsecond)
	m.Requests.Of("get", "hit").Observe(time.Millisecond)
	if series.Count() != 2 || series.Distribution().total != 2 {
		t.Errorf("%d, %+v", series.Count(), series.Distribution())
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "botwired_request_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) != len(bounds) {
			t.Errorf("native and classic buckets: %v", h)
		}
		return
	}
	t.Error("nothing was measured")
}

func TestQuantiles(t *testing.T) {
	var d Distribution
	for i := range d.within { // 10 requests took up to 5 µs, none up to 10, and 10 up to 25
		d.within[i] = []uint64{10, 10, 20}[min(i, 2)]
	}
	d.total = 30
	for q, want := range map[float64]float64{0.1: 1.5e-6, 0.5: 1.75e-5, 0.99: 10} {
		if got, ok := d.Quantile(q); !ok || math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if _, ok := new(Distribution).Quantile(0.5); ok {
		t.Error("a quantile of nothing")
	}
	later := d.Plus(Distribution{within: [len(bounds)]uint64{1: 2}, total: 2})
	if since := later.Since(d); since.total != 2 || since.within != [len(bounds)]uint64{1: 2} {
		t.Errorf("%+v", since)
	}
	others := Distribution{total: later.total + 9}
	for _, d := range []Distribution{d, others} { // from one histogram, and from one among several
		if since := d.Since(later); since != d {
			t.Errorf("after a histogram has begun anew: %+v", since)
		}
	}
}
