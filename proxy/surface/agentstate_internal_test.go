package surface

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
)

// silent are the findings that an agent need not know: they end by themselves and change no answer, or are a person's.
var silent = map[api.Kind]bool{
	"safe": true, "stopping": true, "rebuilding": true, "unwatched": true, "failing": true, "quota_low": true,
	"namespace_nearly_full": true, "disk_damaged": true,
}

// Each finding of the status has a sentence for agents, or is one that they need not know. No sentence holds a word of
// upstream's.
func TestSentencesForAgents(t *testing.T) {
	has := make(map[api.Kind]bool)
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
			text := f.agentSentence(&one)
			has[one.Kind] = has[one.Kind] || text != ""
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
		if has[kind] == silent[kind] {
			t.Errorf("%s: has a sentence for agents: %v, need not be known: %v", kind, has[kind], silent[kind])
		}
	}
}

// A namespace of which the status has several findings has all of their sentences, and others have none of them.
func TestANamespaceHasAllItsSentences(t *testing.T) {
	texts := (&facts{now: noon, openIn: map[string]int{"full": 1, "unknown": 2}, status: &api.Status{
		OpenDeadLetters: 3, Namespaces: []api.NamespaceStatus{{Namespace: "full", Pending: 1, Full: "HTTP 413"}, {Namespace: "well"}},
	}}).agentTexts()
	const full = "Upstream has no room for more in this memory: new values wait here, durably. Delete what is not needed: deletes go."
	const decide = " of this memory for good: a person has to decide about "
	want := map[string]string{
		"full":    "Upstream has refused 1 write" + decide + "it (botwired dead-letters). " + full,
		"unknown": "Upstream has refused 2 writes" + decide + "them (botwired dead-letters).",
	}
	if diff := cmp.Diff(want, texts.of); diff != "" || texts.all != "" {
		t.Errorf("the others have %q; (-want +got):\n%s", texts.all, diff)
	}
}

// Waits of seconds are not worth a model's attention.
func TestAgentsHearOfLongWaits(t *testing.T) {
	short := noon.Add(59 * time.Second)
	f := &facts{now: noon, status: &api.Status{Namespaces: []api.NamespaceStatus{{Namespace: "n", Pending: 1, OldestPendingSeconds: 60, Waits: &api.Wait{Why: "throttled: HTTP 429", Until: &short}}}}}
	if got := f.agentText(); got == "" {
		t.Error("no sentence about a write that short waits have held up for a minute")
	}
	for wait, want := range map[time.Duration]string{
		59 * time.Second: "",
		time.Hour:        "Upstream limits the writes of this memory: they wait here, durably, until 13:00 UTC.",
		25 * time.Hour:   "Upstream limits the writes of this memory: they wait here, durably, until 2026-11-23 13:00 UTC.",
	} {
		until := noon.Add(wait)
		f := &facts{now: noon, status: &api.Status{Namespaces: []api.NamespaceStatus{{Namespace: "n", Pending: 1, Waits: &api.Wait{Why: "throttled: HTTP 429", Until: &until}}}}}
		if got := f.agentText(); got != want {
			t.Errorf("%v: %q, want %q", wait, got, want)
		}
	}
	f = &facts{now: noon, status: &api.Status{Namespaces: []api.NamespaceStatus{
		{Namespace: "n", Pending: 1, OldestPendingSeconds: 61, Waits: &api.Wait{Why: "throttled: HTTP 429"}},
	}}}
	if got := f.agentText(); got != "Upstream limits the writes of this memory: they wait here, durably." {
		t.Errorf("without a time: %q", got)
	}
}

// While a look is under way, its callers are not given what was known before, and a change meanwhile is not lost.
func TestAStateIsOutdatedUntilTheLookEnds(t *testing.T) {
	var a AgentState
	looks := 0
	a.look = func() *agentTexts {
		looks++
		if !a.isOutdated() {
			t.Errorf("look %d: others would take what was known before", looks)
		}
		if looks == 1 {
			a.change()
		}
		return &agentTexts{all: strconv.Itoa(looks)}
	}
	a.change()
	for _, want := range []string{"1", "2", "2"} {
		if got := a.Of("n"); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	if a.learn(); looks != 2 {
		t.Errorf("who waits for a look makes another: %d looks, want 2", looks)
	}
}

// A burst of dead letters costs two looks a second, however many answers there are, and none of it is missed.
func TestABurstOfDeadLettersCostsFewLooks(t *testing.T) {
	letters, looks := 0, 0
	a := &AgentState{look: func() *agentTexts {
		looks++
		return &agentTexts{all: strconv.Itoa(letters)}
	}}
	for letters = 1; letters <= 100; letters++ {
		a.refuse()
		if got := a.Of("n"); got != "1" {
			t.Fatalf("letter %d: it is %s, want 1", letters, got)
		}
	}
	letters--
	a.tick()
	if got := a.Of("n"); got != "100" || looks != 2 {
		t.Errorf("it is %s after %d looks, want 100 after 2", got, looks)
	}
	letters++
	a.refuse()
	a.tick()
	if got := a.Of("n"); got != "101" || looks != 3 {
		t.Errorf("a letter right before a tick: it is %s after %d looks, want 101 after 3", got, looks)
	}
	letters++
	a.refuse()
	if got := a.Of("n"); got != "102" {
		t.Errorf("the first letter after a tick: it is %s, want 102", got)
	}
}

// What an agent reads of a quota is true while a few of its writes are left, and when none is.
func TestAgentsHearOfQuotas(t *testing.T) {
	soon, resets := noon.Add(time.Minute), noon.Add(12*time.Hour)
	for _, test := range []struct {
		name  string
		quota api.Quota
		waits *api.Wait
		want  string
	}{
		{"used up", api.Quota{Limit: 40, Used: 40, ResetsAt: resets, LingerSeconds: 60}, &api.Wait{Why: "quota: used up", Until: &resets},
			"Upstream limits the writes of this memory: they wait here, durably, until 2026-11-23 00:00 UTC."},
		{"used up, and another failure holds up what waits", api.Quota{Limit: 40, Used: 40, ResetsAt: resets}, &api.Wait{Why: "failed: no answer"},
			"Upstream limits the writes of this memory: they wait here, durably, until 2026-11-23 00:00 UTC."},
		{"a few left, and the first one goes soon", api.Quota{Limit: 40, Used: 38, Left: 2, ResetsAt: resets, LingerSeconds: 6480}, &api.Wait{Why: "quota: spread over the window", Until: &soon},
			"Upstream limits the writes of this memory: they wait here, durably, until about 13:48 UTC."},
		{"a few left, for longer than the window", api.Quota{Limit: 40, Used: 39, Left: 1, ResetsAt: resets, LingerSeconds: 80_000}, &api.Wait{Why: "quota: spread over the window"},
			"Upstream limits the writes of this memory: they wait here, durably, until about 2026-11-23 00:00 UTC."},
		{"seconds to go", api.Quota{Limit: 1000, Used: 700, Left: 300, ResetsAt: resets, LingerSeconds: 180}, &api.Wait{Why: "quota: spread over the window", Until: &soon}, ""},
	} {
		f := &facts{now: noon, status: &api.Status{Namespaces: []api.NamespaceStatus{{Namespace: "n", Pending: 22, Quota: &test.quota, Waits: test.waits}}}}
		if got := f.agentText(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
