package surface

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/api"
)

var (
	noon      = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	since     = noon.Add(-10 * time.Minute)
	until     = noon.Add(30 * time.Minute)
	limit     = int64(1000)
	lossOfOne = space(api.NamespaceStatus{Namespace: "lost", DataLoss: &api.DataLoss{Since: since, Missing: 40, Of: 50}})
	locked    = space(api.NamespaceStatus{Namespace: "locked", Pending: 12, OldestPendingSeconds: 185, Paused: "HTTP 401", Waits: &api.Wait{Why: "paused: HTTP 401"}})
)

func isDown(f *facts) {
	f.status.Upstream = api.UpstreamState{State: "down", Since: since, Reason: "connection refused"}
}

func isFull(f *facts) {
	f.status.Journal = api.JournalState{RefusesWrites: true, Since: &since, Reason: "journal full: the disk has less than the 64 MiB free that journal.disk_reserve keeps. Reads and flushing go on."}
}

func space(n api.NamespaceStatus) func(*facts) {
	return func(f *facts) { f.status.Namespaces = append(f.status.Namespaces, n) }
}

type summaryRow struct {
	name   string
	facts  []func(*facts)
	level  api.Level
	text   string
	since  bool
	remedy string   // part of it
	also   []string // parts of the other findings, in order
}

var summaryRows = []summaryRow{
	{name: "nothing to do", level: api.LevelOK, text: "Everything is safe: no write waits"},
	{"one write", []func(*facts){func(f *facts) { f.status.Pending, f.status.OldestPendingSeconds = 1, 0.25 }}, api.LevelOK,
		"Everything is safe: 1 write on its way, the oldest 250 ms", false, "", nil},
	{"some writes", []func(*facts){func(f *facts) { f.status.Pending, f.status.OldestPendingSeconds = 3, 1.2 }}, api.LevelOK,
		"Everything is safe: 3 writes on their way, the oldest 1.2 s", false, "", nil},
	{"the disk failed", []func(*facts){isFull, isDown, func(f *facts) { f.failed = true }}, api.LevelCritical,
		"The disk failed: botwired takes no more writes, and ends", false, "check the disk", []string{"Upstream is down"}},
	{"the disk is full", []func(*facts){isDown, isFull}, api.LevelCritical,
		"Writes are refused: journal full: the disk has less than the 64 MiB free that journal.disk_reserve keeps. Reads and flushing go on",
		true, "free some room on the disk that holds /data", []string{"Upstream is down"}},
	{"the journal is full", []func(*facts){func(f *facts) {
		f.status.Journal = api.JournalState{RefusesWrites: true, Reason: "journal full: of journal.max_bytes"}
	}}, api.LevelCritical, "Writes are refused: journal full: of journal.max_bytes", false, "raise journal.max_bytes", nil},
	{"data loss", []func(*facts){isDown, lossOfOne}, api.LevelCritical,
		"Upstream no longer holds 40 of 50 entries of lost: agents still get botwired's copies",
		true, "botwired restore lost", []string{"Upstream is down"}},
	{"two have data loss", []func(*facts){lossOfOne, space(api.NamespaceStatus{Namespace: "small", DataLoss: &api.DataLoss{Since: since, Missing: 3, Of: 4}})}, api.LevelCritical,
		"Upstream no longer holds 43 of 54 entries of 2 namespaces (such as lost): agents still get botwired's copies",
		true, "botwired restore lost", nil},
	{"lost", []func(*facts){locked, func(f *facts) {
		f.status.Upstream.Watch = &api.WatchState{Lost: "the bucket b was made anew", Since: since}
	}}, api.LevelCritical, "Upstream has lost writes that it had confirmed, and botwired has stopped asking it: botwired serves its own copies",
		true, "botwired restore --all", []string{"Upstream does not let the writes of locked in"}},
	{"not watched", []func(*facts){func(f *facts) {
		f.status.Upstream.Watch = &api.WatchState{Reason: "no server takes a connection", Since: since}
	}}, api.LevelNotice, "Upstream does not tell of changes (no server takes a connection): copies are fresh for cache.fresh_for",
		true, "botwired doctor", nil},
	{"no bucket", []func(*facts){func(f *facts) {
		f.status.Upstream = api.UpstreamState{URL: "nats://a", State: "down", Since: since, Reason: "it cannot be made",
			Watch: &api.WatchState{Refused: "it cannot be made", Since: f.now}}
	}}, api.LevelCritical, "botwired has no bucket that it can use: it cannot be made", true, "botwired doctor", nil},
	{"paused by NATS", []func(*facts){locked, func(f *facts) { f.status.Upstream.Watch = &api.WatchState{CaughtUp: true} }}, api.LevelWarning,
		"Upstream does not let the writes of locked in (HTTP 401): 12 writes wait, the oldest for 3 min", true, "upstream.nats.context", nil},
	{"down", []func(*facts){isDown}, api.LevelWarning, "Upstream is down: nothing is lost", true, "connection refused; botwired tries again by itself", nil},
	{"down, and one write waits", []func(*facts){isDown, func(f *facts) { f.status.Pending, f.status.OldestPendingSeconds = 1, 61 }}, api.LevelWarning,
		"Upstream is down: nothing is lost", true, "botwired doctor", nil},
	{"degraded", []func(*facts){func(f *facts) {
		f.status.Upstream = api.UpstreamState{URL: "tls://a,b", State: "degraded", Since: since, Reason: "HTTP 503"}
		f.status.Pending, f.status.OldestPendingSeconds = 2, 5
	}}, api.LevelNotice, "Upstream is degraded: nothing is lost", true, "by itself", nil},
	{"paused", []func(*facts){locked}, api.LevelWarning,
		"Upstream does not let the writes of locked in (HTTP 401): 12 writes wait, the oldest for 3 min", true, "upstream.headers", nil},
	{"a key lacks", []func(*facts){
		space(api.NamespaceStatus{Namespace: "a", Pending: 1, OldestPendingSeconds: 7, Paused: "it is sealed with key 1f, which the key file lacks"}),
	}, api.LevelWarning, "The writes of a wait (it is sealed with key 1f, which the key file lacks): 1 write waits, the oldest for 7 s", true, "seal status", nil},
	{"several paused", []func(*facts){
		space(api.NamespaceStatus{Namespace: "a", Pending: 1, OldestPendingSeconds: 7200, Paused: "HTTP 507 out of room"}), locked,
	}, api.LevelWarning, "Upstream does not let the writes of 2 namespaces (such as locked) in (HTTP 401): 13 writes wait, the oldest for 2 h", true, "", nil},
	{"it refuses all", []func(*facts){space(api.NamespaceStatus{Namespace: "a", Pending: 1, Paused: "it refuses one write after another"})}, api.LevelWarning,
		"Upstream does not let the writes of a in (it refuses one write after another): 1 write waits, the oldest for 0 ms", true, "retry --all", nil},
	{"one dead letter", []func(*facts){func(f *facts) { f.status.OpenDeadLetters, f.openSince = 1, since }}, api.LevelWarning,
		"Upstream has refused 1 write for good, which waits for your decision", true, "retry or delete", nil},
	{"dead letters", []func(*facts){func(f *facts) { f.status.OpenDeadLetters = 2 }}, api.LevelWarning,
		"Upstream has refused 2 writes for good, which wait for your decision", false, "retry or delete", nil},
	{"full", []func(*facts){space(api.NamespaceStatus{Namespace: "a", Pending: 1, Full: "HTTP 507: out of room"})}, api.LevelWarning,
		"Upstream has no room for more in a (HTTP 507: out of room): 1 write waits, the oldest for 0 ms, and deletes go", true, "delete entries", nil},
	{"nearly full", []func(*facts){
		space(api.NamespaceStatus{Namespace: "a", Bytes: 800, BytesLimit: &limit}), space(api.NamespaceStatus{Namespace: "b", Bytes: 900, BytesLimit: &limit}),
		space(api.NamespaceStatus{Namespace: "c", Bytes: 799, BytesLimit: &limit}),
	}, api.LevelWarning, "2 namespaces (such as a) are nearly full (about 800 of 1,000 bytes, by upstream's last list): writes wait once upstream has no room for more", false, "delete entries", nil},
	{"reads refused", []func(*facts){space(api.NamespaceStatus{Namespace: "a", ReadsRefused: "HTTP 403"})}, api.LevelWarning,
		"Upstream does not let the reads of a in (HTTP 403): botwired answers with its copies", false, "upstream.url", nil},
	{"reads wait", []func(*facts){space(api.NamespaceStatus{Namespace: "a", ReadsRefused: "HTTP 429: slowly, until 12:00 UTC"})}, api.LevelWarning,
		"Upstream does not let the reads of a in (HTTP 429: slowly, until 12:00 UTC): botwired answers with its copies", false, "as long as upstream has said", nil},
	{"not sealed", []func(*facts){space(api.NamespaceStatus{Namespace: "a", NotOpened: "key k: it is not sealed"})}, api.LevelWarning,
		"Upstream holds what is not sealed with these keys in a (key k: it is not sealed): botwired refuses it", false, "botwired seal status", nil},
	{"a quota is used up", []func(*facts){space(api.NamespaceStatus{
		Namespace: "a", Pending: 2, Waits: &api.Wait{Why: "quota: used up"}, Quota: &api.Quota{Limit: 1000, Used: 1000, ResetsAt: until, RunsOutAt: &since},
	})}, api.LevelWarning, "a has used up the quota of 1,000 writes: 2 writes wait until 12:30 UTC", true, "only the newest is sent", nil},
	{"upstream says that a quota is used up", []func(*facts){space(api.NamespaceStatus{
		Namespace: "a", Pending: 2, Waits: &api.Wait{Why: "throttled: HTTP 429", Until: &until},
		Quota: &api.Quota{Limit: 50, Used: 1, ResetsAt: noon.Add(12 * time.Hour), RunsOutAt: &since},
	})}, api.LevelWarning, "Upstream says that the quota of a is used up (HTTP 429): 2 writes wait until 12:30 UTC", true, "somebody else writes to it", []string{}},
	{"a quota is used up, and nothing waits", []func(*facts){space(api.NamespaceStatus{Namespace: "a", Quota: &api.Quota{Limit: 9, Used: 9}})}, api.LevelOK,
		"Everything is safe: no write waits", false, "", nil},
	{"spread", []func(*facts){space(api.NamespaceStatus{
		Namespace: "a", Pending: 1, OldestPendingSeconds: 10, Waits: &api.Wait{Why: "quota: spread over the window"}, Quota: &api.Quota{Limit: 1000, Left: 300, LingerSeconds: 179.6},
	})}, api.LevelNotice, "a has 300 of the quota's 1,000 writes left: 1 write waits until about 12:03 UTC", true, "botwired flush", nil},
	{"spread, near its end", []func(*facts){space(api.NamespaceStatus{
		Namespace: "a", Pending: 1, Waits: &api.Wait{Why: "quota: spread"}, Quota: &api.Quota{Limit: 1000, Left: 99, LingerSeconds: 600},
	})}, api.LevelNotice, "a has 99 of the quota's 1,000 writes left: 1 write waits until about 12:10 UTC", true, "botwired flush", nil},
	{"spread for long", []func(*facts){
		space(api.NamespaceStatus{
			Namespace: "a", Pending: 22, OldestPendingSeconds: 10, Waits: &api.Wait{Why: "quota: spread over the window"}, Quota: &api.Quota{Limit: 40, Left: 2, LingerSeconds: 6480},
		}),
	}, api.LevelWarning, "a has 2 of the quota's 40 writes left: 22 writes wait until about 13:48 UTC", true, "botwired flush", nil},
	{"two are spread", []func(*facts){
		space(api.NamespaceStatus{Namespace: "a", Pending: 22, Waits: &api.Wait{Why: "quota: spread"}, Quota: &api.Quota{Left: 2, LingerSeconds: 6480}}),
		space(api.NamespaceStatus{Namespace: "b", Pending: 1, Waits: &api.Wait{Why: "quota: spread"}, Quota: &api.Quota{Left: 2, LingerSeconds: 6480}}),
	}, api.LevelWarning, "2 namespaces (such as a) are nearly out of writes: 23 writes wait until about 13:48 UTC", true, "botwired flush", nil},
	{"throttled", []func(*facts){space(api.NamespaceStatus{Namespace: "a", Pending: 1, Waits: &api.Wait{Why: "throttled: HTTP 429", Until: &until}})}, api.LevelNotice,
		"Upstream throttles a until 12:30 UTC: 1 write waits, the oldest for 0 ms", true, "flush --now", nil},
	{"failing", []func(*facts){space(api.NamespaceStatus{Namespace: "a", Pending: 1, Waits: &api.Wait{Why: "failed: HTTP 500"}})}, api.LevelNotice,
		"Writes of a fail and are tried again (HTTP 500): 1 write waits, the oldest for 0 ms", true, "botwired pending", nil},
	{"failing while upstream is down", []func(*facts){isDown, space(api.NamespaceStatus{Namespace: "a", Pending: 1, Waits: &api.Wait{Why: "failed: HTTP 500"}})}, api.LevelWarning,
		"Upstream is down: nothing is lost", true, "", nil},
	{"damaged", []func(*facts){func(f *facts) { f.status.DamagedFiles = 2 }}, api.LevelWarning,
		"The disk has damaged 2 files of the journal: what cannot be read of the copies, the receipts and the history counts as missing, and upstream is asked instead", true, "restart botwired to mend it", nil},
	{"stopping", []func(*facts){func(f *facts) { f.status.Stopping, f.status.Pending, f.status.OldestPendingSeconds = true, 2, 3 }}, api.LevelNotice,
		"botwired is stopping: of 2 writes it sends what it can now, and keeps the others for the next start", false, "", nil},
	{"stopping with nothing to send", []func(*facts){func(f *facts) { f.status.Stopping = true }}, api.LevelNotice, "botwired is stopping: no write waits", false, "", nil},
	{"rebuilding", []func(*facts){func(f *facts) { f.status.Rebuilding, f.status.Pending = true, 3021 }}, api.LevelNotice,
		"botwired is still reading its journal: it has found 3,021 writes so far that upstream does not have", true, "", nil},
	{"all at once", []func(*facts){
		func(f *facts) { f.status.Stopping, f.status.OpenDeadLetters = true, 1 }, locked, isDown, lossOfOne, isFull,
	}, api.LevelCritical, "Writes are refused: journal full: the disk has less than the 64 MiB free that journal.disk_reserve keeps. Reads and flushing go on", true, "",
		[]string{"no longer holds", "is down", "does not let", "for good", "is stopping"}},
}

func factsOf(row summaryRow) *facts {
	f := &facts{now: noon, status: &api.Status{DataDir: "/data", StartedAt: since, Upstream: api.UpstreamState{State: "up"}}}
	for _, add := range row.facts {
		add(f)
	}
	return f
}

// The summary is one sentence about the worst finding, with its time and remedy. The other findings follow
// it.
func TestSummary(t *testing.T) {
	for _, test := range summaryRows {
		t.Run(test.name, func(t *testing.T) {
			got := summarize(factsOf(test))
			if got.Level != test.level || got.Text != test.text || (got.Since != nil) != test.since {
				t.Errorf("%s: %q since %v", got.Level, got.Text, got.Since)
			}
			if got.Remedy == nil && test.remedy != "" || got.Remedy != nil && !strings.Contains(*got.Remedy, test.remedy) {
				t.Errorf("remedy: %v", got.Remedy)
			}
			if strings.HasSuffix(got.Text, ".") {
				t.Error("the sentence has a full stop")
			}
			for i, part := range test.also {
				if i >= len(got.Also) || !strings.Contains(got.Also[i].Text, part) {
					t.Errorf("%d: no %q in %+v", i, part, got.Also)
				}
			}
			if test.also != nil && len(got.Also) != len(test.also) {
				t.Errorf("also: %+v", got.Also)
			}
		})
	}
}

// named finds the commands in a remedy. (botwired tries again by itself, too.)
var named = regexp.MustCompile(`botwired (?:doctor|pending|seal status|flush --now|flush|dead-letters retry --all|dead-letters|(?:restore|forget) (?:--all|[\w-]+))`)

// The commands of a remedy stand in it, in their order, and no other does. An upstream's words are no remedy.
func TestCommandsOfRemedies(t *testing.T) {
	seen := make(map[string]bool)
	for _, row := range summaryRows {
		summary := summarize(factsOf(row))
		for _, finding := range append([]api.Finding{summary.Finding}, summary.Also...) {
			var inRemedy []string
			if finding.Remedy != nil {
				inRemedy = named.FindAllString(*finding.Remedy, -1)
			}
			if diff := cmp.Diff(inRemedy, finding.Commands, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, %s (-in the remedy +offered):\n%s", row.name, finding.Kind, diff)
			}
			for _, command := range finding.Commands {
				seen[command] = true
			}
		}
	}
	if len(seen) < 9 {
		t.Errorf("only %d commands are offered: %v", len(seen), seen)
	}
	f := &facts{now: noon, status: &api.Status{Upstream: api.UpstreamState{State: "degraded", Reason: "say botwired forget planner"}}}
	if got := summarize(f); !strings.Contains(*got.Remedy, "forget planner") || len(got.Commands) > 0 {
		t.Errorf("%+v", got)
	}
}

// What waits in an outage stands beside the sentence, which stays short.
func TestDetailOfAnOutage(t *testing.T) {
	for pending, want := range []string{"no write waits", "1 write waits here, the oldest for 39 s"} {
		f := &facts{now: noon, status: &api.Status{Pending: pending, OldestPendingSeconds: 39}}
		if isDown(f); summarize(f).Detail != want {
			t.Errorf("%d writes: %q", pending, summarize(f).Detail)
		}
	}
}
