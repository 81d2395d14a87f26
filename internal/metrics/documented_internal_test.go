package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// metric is a metric as the daemon or its documents describe it.
type metric struct {
	kind   string // "" if it has no value yet
	labels string
}

// boundedLabels are the labels whose values callers cannot choose.
var boundedLabels = []string{"finding", "goversion", "level", "operation", "outcome", "platform", "reason", "revision", "version", "writer"}

var described = regexp.MustCompile(`fqName: "([^"]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

var labelName = regexp.MustCompile(`[a-z]+`)

// registered returns the metrics, without those of Go's runtime and of the process.
func registered(t *testing.T) map[string]metric {
	t.Helper()
	m := New(Build{})
	m.Read(someSources(t))
	all := make(map[string]metric)
	descriptions := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(descriptions); close(descriptions) }()
	for each := range descriptions {
		said := described.FindStringSubmatch(each.String())
		if said == nil {
			t.Fatalf("%s", each)
		}
		if strings.HasPrefix(said[1], "botwired_") {
			all[said[1]] = metric{"", sorted(labelName.FindAllString(said[2]+","+said[3], -1))}
		}
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if m, ok := all[f.GetName()]; ok {
			m.kind = strings.ToLower(f.GetType().String())
			all[f.GetName()] = m
		}
	}
	return all
}

func sorted(labels []string) string {
	slices.Sort(labels)
	return strings.Join(labels, ",")
}

func document(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var metricRow = regexp.MustCompile("(?m)^\\| `(botwired_[a-z_]+)` \\| (\\w+) \\|[^|]*\\|([^|]*)\\|")

// Every metric is documented with its type and labels, and no other is. No label has values that callers
// choose.
func TestMetricsAreDocumented(t *testing.T) {
	all, documented := registered(t), make(map[string]metric)
	for _, m := range metricRow.FindAllStringSubmatch(document(t, "../../docs/metrics.md"), -1) {
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		documented[m[1]] = metric{m[2], sorted(labels)}
	}
	for name, m := range all {
		if m.kind == "" { // it has no value yet
			m.kind = documented[name].kind
			all[name] = m
		}
		for label := range strings.SplitSeq(m.labels, ",") {
			if label != "" && !slices.Contains(boundedLabels, label) {
				t.Errorf("%s has a label %s: are its values bounded?", name, label)
			}
		}
	}
	if diff := cmp.Diff(all, documented, cmp.AllowUnexported(metric{})); diff != "" {
		t.Errorf("registered (-) and in docs/metrics.md (+):\n%s", diff)
	}
}

var named = regexp.MustCompile(`\bbotwired_[a-z_]+`)

// wantRegistered checks that an expression names only existing metrics.
func wantRegistered(t *testing.T, all map[string]metric, where, expression string) {
	t.Helper()
	names := named.FindAllString(expression, -1)
	if len(names) == 0 {
		t.Errorf("%s: no metric in %q", where, expression)
	}
	for _, name := range names {
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok {
				base = cut
			}
		}
		if _, ok := all[base]; !ok {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

// The alert rules name existing metrics, and say what to do.
func TestAlertRules(t *testing.T) {
	all := registered(t)
	var doc struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(document(t, "../../deploy/alerts.yml")), &doc); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, group := range doc.Groups {
		for _, rule := range group.Rules {
			count++
			if rule.Alert != "BotwiredDown" { // a metric of Prometheus itself
				wantRegistered(t, all, rule.Alert, rule.Expr)
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["remedy"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s lacks a summary, a remedy or a severity", rule.Alert)
			}
		}
	}
	if count < 10 {
		t.Errorf("only %d rules", count)
	}
}

// The dashboard's panels show existing metrics.
func TestDashboard(t *testing.T) {
	all := registered(t)
	var doc struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(document(t, "../../deploy/grafana-dashboard.json")), &doc); err != nil {
		t.Fatal(err)
	}
	ids := make(map[int]bool)
	for _, panel := range doc.Panels {
		if ids[panel.ID] = true; panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			if !strings.HasPrefix(target.Expr, "process_") {
				wantRegistered(t, all, panel.Title, target.Expr)
			}
		}
	}
	if len(ids) != len(doc.Panels) || len(ids) < 15 {
		t.Errorf("%d panels with %d numbers", len(doc.Panels), len(ids))
	}
}
