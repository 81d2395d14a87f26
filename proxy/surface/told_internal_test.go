package surface

import (
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
)

// silent are the findings that an agent need not know: they end by themselves and change no answer, or are a person's.
var silent = map[api.Kind]bool{
	"safe": true, "stopping": true, "rebuilding": true, "unwatched": true, "restoring": true, "failing": true, "quota_low": true,
	"namespace_nearly_full": true, "doubted": true, "disk_damaged": true, "directory_changed": true,
}

// An agent is told of each finding of the status, or it is one that it need not know. Nothing that it is told holds a word of
// upstream's.
func TestWhatAgentsAreToldOfFindings(t *testing.T) {
	told := make(map[api.Kind]bool)
	for _, row := range summaryRows {
		f := &facts{now: noon, status: &api.Status{Upstream: api.UpstreamState{State: "up", URL: "http://u"}, DataDir: "/data"}}
		for _, fact := range row.facts {
			fact(f)
		}
		if len(f.status.Namespaces) > 1 {
			f.status.Namespaces = f.status.Namespaces[:1]
		}
		summary := summarize(f)
		for _, one := range append([]api.Finding{summary.Finding}, summary.Also...) {
			text := f.toAgent(&one)
			told[one.Kind] = told[one.Kind] || text != ""
			for _, upstreams := range []string{"refused:", "HTTP", "403", "connection", "key k"} {
				if strings.Contains(text, upstreams) {
					t.Errorf("%s: %q", row.name, text)
				}
			}
			if text != "" && (text[0] < 'A' || text[len(text)-1] != '.' || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })) {
				t.Errorf("%s: %q is no sentence of ASCII", row.name, text)
			}
		}
	}
	for kind := range api.Kinds() {
		if told[kind] == silent[kind] {
			t.Errorf("%s: an agent is told: %v, need not know: %v", kind, told[kind], silent[kind])
		}
	}
}

// Waits of seconds are not worth a model's attention.
func TestAnAgentIsToldOfLongWaits(t *testing.T) {
	short := noon.Add(59 * time.Second)
	f := &facts{now: noon, status: &api.Status{Namespaces: []api.NamespaceStatus{{Namespace: "n", Pending: 1, OldestPendingSeconds: 60, Waits: &api.Wait{Why: "throttled: HTTP 429", Until: &short}}}}}
	if got := f.toAgents(); got == "" {
		t.Error("nothing is told of a write that short waits have held up for a minute")
	}
	for wait, told := range map[time.Duration]string{
		59 * time.Second: "",
		time.Hour:        "Upstream has put off the writes of this memory: they wait here, durably, until 13:00 UTC.",
		25 * time.Hour:   "Upstream has put off the writes of this memory: they wait here, durably, until 2026-11-23 13:00 UTC.",
	} {
		until := noon.Add(wait)
		f := &facts{now: noon, status: &api.Status{Namespaces: []api.NamespaceStatus{{Namespace: "n", Pending: 1, Waits: &api.Wait{Why: "throttled: HTTP 429", Until: &until}}}}}
		if got := f.toAgents(); got != told {
			t.Errorf("%v: %q, want %q", wait, got, told)
		}
	}
	f = &facts{now: noon, status: &api.Status{Namespaces: []api.NamespaceStatus{
		{Namespace: "n", Pending: 1, OldestPendingSeconds: 61, Waits: &api.Wait{Why: "throttled: HTTP 429"}},
	}}}
	if got := f.toAgents(); got != "Upstream has put off the writes of this memory: they wait here, durably." {
		t.Errorf("without a time: %q", got)
	}
}
