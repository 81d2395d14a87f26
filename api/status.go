package api

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Status is the state of a daemon: GET /_botwired/status.
type Status struct {
	Version              string        `json:"version"`
	Summary              Summary       `json:"summary"`
	StartedAt            time.Time     `json:"started_at"`
	UptimeSeconds        float64       `json:"uptime_seconds"`
	DataDir              string        `json:"data_dir"`
	Listen               string        `json:"listen"`
	Ready                bool          `json:"ready"` // as in GET /_botwired/readyz
	Stopping             bool          `json:"stopping"`
	Journal              JournalState  `json:"journal"`
	Upstream             UpstreamState `json:"upstream"`
	Pending              int           `json:"pending"`
	PendingBytes         int64         `json:"pending_bytes"`
	OldestPendingSeconds float64       `json:"oldest_pending_seconds"`
	DeadLetters          int           `json:"dead_letters"`
	OpenDeadLetters      int           `json:"open_dead_letters"` // those that need a decision
	Conflicts            int           `json:"conflicts"`         // states that have lost a conflict between two hosts: time has decided them
	LastSeq              uint64        `json:"last_seq"`
	Rebuilding           bool          `json:"rebuilding"`    // the daemon is still reading its journal, and does not know all pending writes yet
	DamagedFiles         int           `json:"damaged_files"` // of the journal, found since the start: the next start mends them
	Figures
	History HistoryState `json:"history"`
	Callers []Caller     `json:"callers"` // of the memory API, latest first
	// NamespacesTotal is the number of namespaces before the parameter namespaces limits the list.
	NamespacesTotal int               `json:"namespaces_total"`
	Namespaces      []NamespaceStatus `json:"namespaces"`
}

// Level says how urgent a finding is.
type Level string

// The levels, which the log's ERROR, WARN and INFO and the severities of the alerts agree with. Critical:
// writes are refused, or upstream has lost what it had confirmed. Warning: something is wrong that does not
// end by itself, or upstream is down; acknowledged writes are safe. Notice: nothing needs to be done. OK: all
// is well.
const (
	LevelOK       Level = "ok"
	LevelNotice   Level = "notice"
	LevelWarning  Level = "warning"
	LevelCritical Level = "critical"
)

// Kind names a finding for programs: in the status, and in the metric botwired_finding. docs/metrics.md has
// the metric and the alert of each.
type Kind string

// Kinds returns the level of each kind of finding.
func Kinds() map[Kind]Level {
	return map[Kind]Level{
		"disk_failed": LevelCritical, "writes_refused": LevelCritical, "no_bucket": LevelCritical,
		"upstream_lost": LevelCritical, "data_loss": LevelCritical,
		"upstream_down": LevelWarning, "writes_paused": LevelWarning, "reads_refused": LevelWarning, "not_opened": LevelWarning,
		"dead_letters": LevelWarning, "namespace_full": LevelWarning, "namespace_nearly_full": LevelWarning, "quota_used_up": LevelWarning, "quota_delays": LevelWarning,
		"disk_damaged": LevelWarning,
		"stopping":     LevelNotice, "rebuilding": LevelNotice, "upstream_degraded": LevelNotice, "unwatched": LevelNotice,
		"throttled": LevelNotice, "failing": LevelNotice, "quota_low": LevelNotice,
		"safe": LevelOK,
	}
}

// Finding is one thing that a user should know, in one sentence.
type Finding struct {
	Kind   Kind       `json:"kind"`
	Level  Level      `json:"level"`
	Text   string     `json:"text"`  // without a full stop
	Since  *time.Time `json:"since"` // null if unknown, or if all is well
	Detail string     `json:"detail,omitempty"`
	Remedy *string    `json:"remedy"` // what to do, or null
	// Commands are the commands that Remedy names, word for word.
	Commands []string `json:"commands,omitempty"`
}

// Offering returns the finding with the commands that its remedy names.
func (f *Finding) Offering(commands ...string) *Finding {
	f.Commands = commands
	return f
}

// Summary holds the worst finding and the others.
type Summary struct {
	Finding
	Also []Finding `json:"also"` // worst first
}

// JournalState says whether the journal refuses writes, or refused one within the last seconds.
type JournalState struct {
	RefusesWrites bool       `json:"refuses_writes"`
	Reason        string     `json:"reason,omitempty"`
	Since         *time.Time `json:"since,omitempty"` // left out unless the journal is out of room
}

// HistoryState says how far back the versions of entries reach.
type HistoryState struct {
	// Since is the time of the newest version that was removed for room; null if none was.
	Since *time.Time `json:"since"`
}

// UpstreamState is the health of the memory service.
type UpstreamState struct {
	URL    string    `json:"url"`
	State  string    `json:"state"` // "up", "degraded" or "down"
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Sick has the namespaces of the entries that fail while all others succeed, with the time since when they do; nil if
	// that is not why.
	Sick          map[string]time.Time `json:"-"`
	LastSuccessAt *time.Time           `json:"last_success_at"` // null if there was none since the start
	Concurrency   Concurrency          `json:"concurrency"`
	Watch         *WatchState          `json:"watch"` // null if upstream does not report changes
}

// Concurrency says how many requests may be in flight upstream.
type Concurrency struct {
	Limit  int    `json:"limit"`            // upstream.concurrency
	Now    int    `json:"now"`              // as many as upstream accepts now
	Reason string `json:"reason,omitempty"` // why Now is below Limit
}

// Said returns the state as people read it: nobody knows it before the first answer.
func (u *UpstreamState) Said() string {
	if u.LastSuccessAt == nil && u.Reason == "" && (u.Watch == nil || !u.Watch.CaughtUp) {
		return "not asked yet"
	}
	return u.State
}

// WatchState is the state of the watch through which upstream reports changes.
type WatchState struct {
	Bucket   string    `json:"bucket"`
	Server   string    `json:"server,omitempty"`
	Lost     string    `json:"lost,omitempty"` // why upstream is not trusted; left out if it is trusted
	Refused  string    `json:"-"`              // why the daemon can use no bucket: also the reason of State down
	CaughtUp bool      `json:"caught_up"`      // the watch has seen all changes
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason,omitempty"` // why it has not caught up
	Entries  int       `json:"entries"`
	Bytes    int64     `json:"bytes"` // memory in use, approximately
}

// unwatchedFor is how long a watch may be broken: an election of another leader breaks it for seconds.
const unwatchedFor = 10 * time.Second

// IsBroken reports whether the watch has seen no changes for so long that a user should know.
func (w *WatchState) IsBroken(now time.Time) bool {
	return w != nil && !w.CaughtUp && w.Lost == "" && now.Sub(w.Since) >= unwatchedFor
}

// Figures counts what the daemon has done since its start, and what it holds.
type Figures struct {
	Reads  Reads  `json:"reads"`
	Writes Writes `json:"writes"`
	// TimeSaved is an estimate; null until a round trip to upstream was measured.
	TimeSaved *float64 `json:"time_saved_seconds"`
	Disk      Disk     `json:"disk"`
	Cache     Cache    `json:"cache"`
}

// Reads counts answered GETs and LISTs.
type Reads struct {
	Total    int64 `json:"total"`
	Hits     int64 `json:"hits"`     // answered without waiting for upstream
	Upstream int64 `json:"upstream"` // answered after waiting for upstream
}

// Writes counts acknowledged writes, and their requests.
type Writes struct {
	Acknowledged int64 `json:"acknowledged"`
	Sent         int64 `json:"sent"`  // write requests sent upstream
	Saved        int64 `json:"saved"` // writes that needed no request, because a newer one replaced them
}

// Disk is the disk space of the data directory.
type Disk struct {
	Journal int64  `json:"journal_bytes"` // without the copies
	Copies  int64  `json:"copies_bytes"`
	Free    *int64 `json:"free_bytes"` // null if the system does not say
}

// Cache is the memory of the cached entries.
type Cache struct {
	Bytes  int64 `json:"bytes"`
	Budget int64 `json:"budget"`
}

// Caller is a kind of program that uses the memory API, by its User-Agent.
type Caller struct {
	Agent    string    `json:"agent"`
	Requests int64     `json:"requests"`
	LastAt   time.Time `json:"last_at"`
}

// NamespaceStatus is the state of a namespace.
type NamespaceStatus struct {
	Namespace            string  `json:"namespace"`
	Pending              int     `json:"pending"`
	PendingBytes         int64   `json:"pending_bytes"`
	OldestPendingSeconds float64 `json:"oldest_pending_seconds"`
	Waits                *Wait   `json:"waits"` // null if it waits for nothing
	Paused               string  `json:"paused,omitempty"`
	ReadsRefused         string  `json:"reads_refused,omitempty"` // why upstream refuses reads
	Sealed               bool    `json:"sealed,omitempty"`
	NotOpened            string  `json:"not_opened,omitempty"` // what upstream holds of a sealed namespace that does not open, as far as it has shown
	// DataLoss is null unless upstream seems to have lost entries of the namespace.
	DataLoss *DataLoss `json:"data_loss"`
	// OlderAnswers counts upstream's answers since the start that were older than the known state, or
	// denied an entry that upstream lists.
	OlderAnswers int `json:"older_answers"`
	// Quota is null if the namespace has none, or has not used it yet.
	Quota *Quota `json:"quota"`
	// Full says why upstream takes no puts: it has no room for more in the namespace.
	Full string `json:"full,omitempty"`
	// Bytes is what upstream's last list of the namespace adds up to; 0 if none is known. BytesLimit is
	// quota.namespace_bytes; null if there is none.
	Bytes      int64  `json:"bytes"`
	BytesLimit *int64 `json:"bytes_limit"`
}

const nearlyFullPercent = 80

// IsFull reports whether upstream has no room for more in the namespace: its puts wait.
func (n *NamespaceStatus) IsFull() bool { return n.Full != "" }

// IsNearlyFull reports whether the namespace holds at least 80 % of its limit.
func (n *NamespaceStatus) IsNearlyFull() bool {
	return n.BytesLimit != nil && n.Bytes*100 >= *n.BytesLimit*nearlyFullPercent
}

// longForQuota is how long a write waits at most for a newer one by default (quota.max_age).
const longForQuota = 15 * 60 // seconds

// WaitsLongForQuota reports whether so little of the quota is left that writes wait longer than they would for newer ones.
func (n *NamespaceStatus) WaitsLongForQuota() bool {
	return n.Quota != nil && n.Quota.LingerSeconds > longForQuota && n.Waits != nil && strings.HasPrefix(n.Waits.Why, "quota")
}

// attention returns how urgently a user should look at the namespace; higher is more urgent.
func (n *NamespaceStatus) attention() int {
	switch {
	case n.DataLoss != nil:
		return 4
	case n.Paused != "" || n.ReadsRefused != "" || n.NotOpened != "" || n.IsFull():
		return 3
	case n.Waits != nil:
		return 2
	case n.Quota != nil && n.Quota.RunsOutAt != nil || n.IsNearlyFull():
		return 1
	}
	return 0
}

// MostUrgent returns at most most namespaces: first those that need attention, then those with the most
// pending writes. It sorts all in place, and is stable.
func MostUrgent(all []NamespaceStatus, most int) []NamespaceStatus {
	slices.SortStableFunc(all, func(a, b NamespaceStatus) int {
		return cmp.Or(cmp.Compare(b.attention(), a.attention()), cmp.Compare(b.Pending, a.Pending))
	})
	return all[:min(most, len(all))]
}

// Wait says why something is not sent upstream now.
type Wait struct {
	Why   string     `json:"why"`
	Until *time.Time `json:"until"` // null if unknown
}

// NamespaceWait says why nothing of a namespace is sent upstream now.
type NamespaceWait struct {
	Namespace string `json:"namespace"`
	Wait
}

// DataLoss says what upstream has lost of a namespace, according to its list.
type DataLoss struct {
	Since   time.Time `json:"since"`
	Missing int       `json:"missing"` // entries that upstream confirmed and now lacks
	Of      int       `json:"of"`      // entries that upstream confirmed
}

// Quota is how much of its quota a namespace has used in the current window, in requests.
type Quota struct {
	Limit         int       `json:"limit"`
	Used          int       `json:"used"`
	Left          int       `json:"left"`
	ResetsAt      time.Time `json:"resets_at"`
	LingerSeconds float64   `json:"linger_seconds"` // about how long a write waits now
	// RunsOutAt is when the quota will run out at the current rate, or when it ran out; null if the
	// quota lasts, or if it is too early to tell.
	RunsOutAt *time.Time `json:"runs_out_at"`
}

// Namespace is a namespace in which the daemon knows entries: GET /_botwired/namespaces.
type Namespace struct {
	NamespaceStatus
	Entries int `json:"entries"` // as far as known here
	// AtLeast means that there are more entries than were counted.
	AtLeast bool `json:"entries_at_least"`
}

// Namespaces is a page of the namespaces in which the daemon knows entries, by name.
type Namespaces struct {
	Namespaces []Namespace `json:"namespaces"`
	Next       *string     `json:"next"` // the next page's parameter after; null on the last page
}

// History has the figures of the last hour: GET /_botwired/history.
type History struct {
	Now         float64  `json:"now"` // Unix seconds
	Outages     []Outage `json:"outages"`
	Points      []Point  `json:"points"`
	StepSeconds float64  `json:"step_seconds"` // between two points
}

// Point counts the events of one step, and what was pending at its end.
type Point struct {
	At          float64  `json:"at"` // the end of the step, in Unix seconds
	Reads       int64    `json:"reads"`
	Writes      int64    `json:"writes"`
	Sent        int64    `json:"sent"`
	LocalP50    *float64 `json:"local_p50_us"` // null if nothing was measured
	LocalP99    *float64 `json:"local_p99_us"`
	UpstreamP50 *float64 `json:"upstream_p50_us"`
	UpstreamP99 *float64 `json:"upstream_p99_us"`
	Pending     int64    `json:"pending"`
}

// Outage is a time when upstream was not up.
type Outage struct {
	From   float64  `json:"from"` // Unix seconds
	To     *float64 `json:"to"`   // null if it is still going on
	State  string   `json:"state"`
	Reason string   `json:"reason"`
}
