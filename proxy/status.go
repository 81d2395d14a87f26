package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/botwired/botwired/journal"
)

type statusDocument struct {
	Version              string           `json:"version"`
	Summary              summaryDocument  `json:"summary"`
	StartedAt            time.Time        `json:"started_at"`
	UptimeSeconds        float64          `json:"uptime_seconds"`
	DataDir              string           `json:"data_dir"`
	Listen               string           `json:"listen"`
	Ready                bool             `json:"ready"` // as readyz says
	Journal              journalDocument  `json:"journal"`
	Upstream             upstreamDocument `json:"upstream"`
	Identity             identityDocument `json:"identity"`
	Pending              int              `json:"pending"`
	PendingBytes         int64            `json:"pending_bytes"`
	OldestPendingSeconds float64          `json:"oldest_pending_seconds"`
	DeadLetters          int              `json:"dead_letters"`
	OpenDeadLetters      int              `json:"open_dead_letters"` // of them, those that wait for a person to decide
	LastSeq              uint64           `json:"last_seq"`
	Rebuilding           bool             `json:"rebuilding"`
	DamagedCopies        int64            `json:"damaged_copies"` // found since the start
	DamagedTables        int64            `json:"damaged_tables"`
	figuresDocument
	Callers []callerDocument `json:"callers"` // of the memory API, the latest first
	// NamespacesTotal is how many Namespaces would be without the parameter namespaces.
	NamespacesTotal int                 `json:"namespaces_total"`
	Namespaces      []namespaceDocument `json:"namespaces"`
}

// journalDocument says whether the journal refuses writes, or has refused one within the last
// seconds, and if so why and, for want of room, since when.
type journalDocument struct {
	RefusesWrites bool       `json:"refuses_writes"`
	Reason        string     `json:"reason,omitempty"`
	Since         *time.Time `json:"since,omitempty"`
}

// takesWrites describes the journal; ready says that it could take a write now.
func (s *surface) takesWrites() (doc journalDocument, ready bool) {
	err := s.journal.Err()
	since, full := s.journal.Full()
	if why := cmp.Or(err, full); why != nil {
		doc = journalDocument{RefusesWrites: true, Reason: refusalReason(why)}
	}
	if full != nil {
		since = since.UTC().Round(time.Millisecond)
		doc.Since = &since
	}
	return doc, err == nil
}

// refusalReason says why the journal refuses writes, and what else that means.
func refusalReason(err error) string {
	if errors.Is(err, journal.ErrFull) {
		return err.Error() + ". " + whileFull
	}
	return err.Error()
}

type upstreamDocument struct {
	URL           string         `json:"url"`
	State         string         `json:"state"` // "up", "degraded" or "down"
	Since         time.Time      `json:"since"`
	Reason        string         `json:"reason,omitempty"`
	LastSuccessAt *time.Time     `json:"last_success_at"` // null if there was none since the start
	Concurrency   Concurrency    `json:"concurrency"`
	Watch         *watchDocument `json:"watch"` // null if upstream does not tell of changes
}

func (s *surface) upstream() upstreamDocument {
	now := s.upstreamState()
	doc := upstreamDocument{URL: s.upstreamURL, State: now.State, Since: now.Since.UTC().Round(time.Millisecond), Reason: now.Reason, Concurrency: now.Concurrency,
		Watch: newWatchDocument(s.watchState)}
	if !now.LastSuccess.IsZero() {
		last := now.LastSuccess.UTC().Round(time.Millisecond)
		doc.LastSuccessAt = &last
	}
	return doc
}

// indexPatience is how long, just after a start, an answer about pending writes waits for
// the journal's index. After that it shows the writes that are known, and says that there
// are more.
const indexPatience = time.Second

// awaitIndex waits until all pending writes are known, if that is soon.
func (s *surface) awaitIndex(ctx context.Context) {
	select {
	case <-s.journal.Rebuilt():
		return
	default:
	}
	timer := time.NewTimer(indexPatience)
	defer timer.Stop()
	select {
	case <-s.journal.Rebuilt():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// status describes the daemon.
func (s *surface) status(w http.ResponseWriter, r *http.Request) error {
	most, err := numberParameter(r, "namespaces", maxLimit, 0, maxLimit)
	if err != nil {
		return err
	}
	s.awaitIndex(r.Context())
	doc, err := s.describe(time.Now())
	if err != nil {
		return err
	}
	if r.URL.Query().Has("namespaces") {
		doc.Namespaces = mostAttention(doc.Namespaces, most)
	}
	return writeDocument(w, http.StatusOK, doc)
}

// describe is the whole status at one time.
func (s *surface) describe(now time.Time) (*statusDocument, error) {
	st := s.journal.Stats()
	refusing, ready := s.takesWrites()
	stopping := s.stopping.Load()
	doc := &statusDocument{
		Version: s.version, StartedAt: s.startedAt.UTC().Round(time.Millisecond), UptimeSeconds: seconds(now.Sub(s.startedAt)),
		DataDir: s.dataDir, Listen: s.listen,
		Ready: ready && !stopping, Journal: refusing,
		Upstream: s.upstream(), Identity: newIdentityDocument(s.identity.State()),
		Pending: st.Pending, PendingBytes: st.PendingBytes,
		OldestPendingSeconds: seconds(st.OldestAge()),
		DeadLetters:          st.DeadLetters, OpenDeadLetters: st.OpenDeadLetters,
		LastSeq: st.LastSeq, Rebuilding: st.Rebuilding, DamagedCopies: st.DamagedCopies, DamagedTables: st.DamagedTables,
		Callers: s.callers.list(), Namespaces: s.namespaces(st),
	}
	doc.NamespacesTotal = len(doc.Namespaces)
	var err error
	if doc.figuresDocument, err = s.figures.now(); err != nil {
		return nil, err
	}
	doc.TimeSaved = s.history.timeSaved(&doc.figuresDocument)
	known := facts{now: now, status: doc, stops: stopping, failed: errors.Is(s.journal.Err(), journal.ErrFailed)}
	if st.OldestOpen > 0 {
		letters, err := s.journal.DeadLetters(st.OldestOpen-1, 1)
		if err != nil {
			return nil, err
		}
		if len(letters) > 0 {
			known.openSince = unixTime(letters[0].RefusedAt)
		}
	}
	doc.Summary = summarize(&known)
	return doc, nil
}

// unixTime is a time in Unix seconds, to the millisecond.
func unixTime(seconds float64) time.Time {
	return time.UnixMicro(int64(seconds * 1e6)).UTC().Round(time.Millisecond)
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1e3 }

type pendingDocument struct {
	Seq         uint64        `json:"seq"`
	Namespace   string        `json:"namespace"`
	Key         string        `json:"key"`
	Op          string        `json:"op"`
	Bytes       int           `json:"bytes"`
	WrittenAt   float64       `json:"written_at"` // Unix seconds
	Attempts    int           `json:"attempts"`
	LastError   string        `json:"last_error"`
	NextAttempt *time.Time    `json:"next_attempt_at"` // null while one is under way
	Waits       *waitDocument `json:"waits"`           // null if it waits for nothing
}

// pending lists the writes that wait for upstream, the longest waiting first.
func (s *surface) pending(w http.ResponseWriter, r *http.Request) error {
	namespace, err := namespaceParameter(r)
	if err != nil {
		return err
	}
	limit, err := limitParameter(r)
	if err != nil {
		return err
	}
	s.awaitIndex(r.Context())
	docs := []pendingDocument{}
	for _, p := range s.journal.PendingList(namespace, limit) {
		doc := pendingDocument{
			Seq: p.Seq, Namespace: p.Namespace, Key: p.Key, Op: p.Op.String(), Bytes: p.Bytes,
			WrittenAt: p.UpdatedAt, Waits: newWaitDocument(s.flusher.EntryWaits(p.ID)),
		}
		var next time.Time
		doc.Attempts, doc.LastError, next = s.flusher.Attempts(p.ID)
		if !next.IsZero() {
			next = next.UTC().Truncate(time.Millisecond)
			doc.NextAttempt = &next
		}
		docs = append(docs, doc)
	}
	return writeDocument(w, http.StatusOK, map[string]any{"pending": docs})
}
