package surface

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/journal"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documented is a row of docs/metrics.md's table of findings.
type documented struct {
	level   api.Level
	metrics []string
	alert   string // "" if it needs none
	why     string
}

var (
	findingRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (critical|warning|notice|ok) \\| ([^|]+) \\| (.+) \\|$")
	metricName = regexp.MustCompile(`botwired_\w+`)
	alertName  = regexp.MustCompile("^`(Botwired\\w+)`")
)

func documentedFindings(t *testing.T) map[api.Kind]documented {
	t.Helper()
	all := make(map[api.Kind]documented)
	for _, m := range findingRow.FindAllStringSubmatch(read(t, "../../docs/metrics.md"), -1) {
		d := documented{level: api.Level(m[2]), metrics: metricName.FindAllString(m[3], -1), why: m[4]}
		if name := alertName.FindStringSubmatch(m[4]); name != nil {
			d.alert = name[1]
		}
		all[api.Kind(m[1])] = d
	}
	return all
}

type rule struct {
	Alert, Expr string
	Labels      struct{ Severity string }
}

func alertRules(t *testing.T) map[string]rule {
	t.Helper()
	var doc struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, "../../deploy/alerts.yml")), &doc); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]rule)
	for _, r := range doc.Groups[0].Rules {
		all[r.Alert] = r
	}
	return all
}

// scraped returns the metrics of a daemon with a status, by their names with labels.
func scraped(t *testing.T, status *api.Status) map[string]float64 {
	t.Helper()
	answers, err := cache.New(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer answers.Close()
	j, err := journal.Open(journal.Options{Dir: "journal", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := metrics.New(metrics.Build{})
	m.Read(metrics.Sources{
		Status: func() *api.Status { return status }, Journal: j, Cache: answers, Quotas: noQuotas{},
		Disk: func() (journal.DiskUsage, error) { return journal.DiskUsage{Free: 1 << 40}, nil }, Coalesced: func() int64 { return 0 },
	})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	values := make(map[string]float64)
	for line := range strings.Lines(w.Body.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	return values
}

type noQuotas struct{}

func (noQuotas) Spent() int64 { return 0 }
func (noQuotas) Saved() int64 { return 0 }
func (noQuotas) Spread() int  { return 0 }

var comparison = regexp.MustCompile(`^(\w+)(?:\{finding=~?"([\w|]+)"\})? (==|<|>) (.+)$`)

// holds evaluates an alert's expression as far as the rules about findings need it: comparisons of a
// metric with a number, joined by "and". ok is false if the expression is another one: make promtool has
// Prometheus evaluate those.
func holds(values map[string]float64, expr string) (holds, ok bool) {
	holds = true
	for part := range strings.SplitSeq(expr, " and ") {
		m := comparison.FindStringSubmatch(part)
		if m == nil {
			return false, false
		}
		bound := 1.0
		for factor := range strings.SplitSeq(m[4], " * ") {
			f, err := strconv.ParseFloat(factor, 64)
			if err != nil {
				return false, false
			}
			bound *= f
		}
		one := false
		for name, v := range values {
			base, labels, _ := strings.Cut(name, "{")
			finding, _, _ := strings.Cut(strings.TrimPrefix(labels, `finding="`), `"`)
			if base != m[1] || m[2] != "" && !strings.Contains("|"+m[2]+"|", "|"+finding+"|") {
				continue
			}
			one = one || m[3] == "==" && v == bound || m[3] == "<" && v < bound || m[3] == ">" && v > bound
		}
		holds = holds && one
	}
	return holds, true
}

// Each finding of the status is in the metrics, and has an alert that becomes true with it, with the same
// severity, or a reason why it needs none. docs/metrics.md has the table.
func TestMetricsKnowWhatStatusKnows(t *testing.T) {
	all, rules := documentedFindings(t), alertRules(t)
	levels := make(map[api.Kind]api.Level)
	for kind, d := range all {
		levels[kind] = d.level
		if d.alert == "" && !strings.HasPrefix(d.why, "none: ") {
			t.Errorf("%s has no alert, and the table does not say why: %s", kind, d.why)
		}
	}
	if diff := cmp.Diff(api.Kinds(), levels); diff != "" {
		t.Fatalf("the kinds of findings (-) and those of docs/metrics.md (+):\n%s", diff)
	}
	severities := map[api.Level]string{api.LevelCritical: "critical", api.LevelWarning: "warning", api.LevelNotice: "info"}
	played, alerted := make(map[api.Kind]bool), make(map[api.Kind]bool)
	for _, row := range summaryRows {
		f := factsOf(row)
		f.status.Summary = summarize(f)
		values := scraped(t, f.status)
		found := append([]api.Finding{f.status.Summary.Finding}, f.status.Summary.Also...)
		kinds := make(map[api.Kind]bool)
		for _, one := range found {
			kinds[one.Kind], played[one.Kind] = true, true
			d, name := all[one.Kind], `botwired_finding{finding="`+string(one.Kind)+`",level="`+string(one.Level)+`"}`
			if values[name] != 1 {
				t.Errorf("%s: %s is %v", row.name, name, values[name])
			}
			if up := values["botwired_upstream_up"]; (up == 0) != (f.status.Upstream.State == "down") {
				t.Errorf("%s: upstream is %s, and botwired_upstream_up is %v", row.name, f.status.Upstream.State, up)
			}
			for _, m := range d.metrics {
				if strings.HasSuffix(m, "_namespaces") && one.Kind != "quota_low" && one.Kind != "upstream_lost" && values[m] == 0 {
					t.Errorf("%s: %s is 0", row.name, m)
				}
			}
			if d.alert == "" {
				continue
			}
			r := rules[d.alert]
			if r.Labels.Severity != severities[one.Level] {
				t.Errorf("%s is %s in the status, and %s in the alert %s", one.Kind, one.Level, r.Labels.Severity, r.Alert)
			}
			is, ok := holds(values, r.Expr)
			if alerted[one.Kind] = alerted[one.Kind] || is; !ok {
				t.Errorf("%s: %s cannot be evaluated", r.Alert, r.Expr)
			}
		}
		for _, r := range rules { // an alert about a finding that the status does not have
			for kind, d := range all {
				if is, _ := holds(values, r.Expr); is && d.alert == r.Alert && !kinds[kind] && !sharesAlert(all, kinds, r.Alert) && !unsaid[kind] {
					t.Errorf("%s: %s is true, and the status lacks %s", row.name, r.Alert, kind)
				}
			}
		}
	}
	for kind, d := range all {
		if !played[kind] {
			t.Errorf("%s is not played", kind)
		}
		if d.alert != "" && !alerted[kind] {
			t.Errorf("%s of the status does not make %s true", kind, d.alert)
		}
	}
}

// unsaid has the findings that the status says only while writes wait for them, or only after seconds.
var unsaid = map[api.Kind]bool{"quota_used_up": true, "quota_low": true, "unwatched": true}

func sharesAlert(all map[api.Kind]documented, kinds map[api.Kind]bool, alert string) bool {
	for kind := range kinds {
		if all[kind].alert == alert {
			return true
		}
	}
	return false
}
