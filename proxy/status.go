package proxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
)

type statusDocument struct {
	Version              string              `json:"version"`
	Ready                bool                `json:"ready"` // as readyz says
	Journal              journalDocument     `json:"journal"`
	Upstream             upstreamDocument    `json:"upstream"`
	Identity             identityDocument    `json:"identity"`
	Pending              int                 `json:"pending"`
	PendingBytes         int64               `json:"pending_bytes"`
	OldestPendingSeconds float64             `json:"oldest_pending_seconds"`
	DeadLetters          int                 `json:"dead_letters"`
	OpenDeadLetters      int                 `json:"open_dead_letters"` // of them, those that wait for a person to decide
	DeadLetterBytes      int64               `json:"dead_letter_bytes"`
	LastSeq              uint64              `json:"last_seq"`
	Receipts             int                 `json:"receipts"`
	Rebuilding           bool                `json:"rebuilding"`
	DamagedCopies        int64               `json:"damaged_copies"` // found since the start
	DamagedTables        int64               `json:"damaged_tables"`
	Namespaces           []namespaceDocument `json:"namespaces"`
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
	URL           string      `json:"url"`
	State         string      `json:"state"` // "up", "degraded" or "down"
	Since         time.Time   `json:"since"`
	Reason        string      `json:"reason,omitempty"`
	LastSuccessAt *time.Time  `json:"last_success_at"` // null if there was none since the start
	Concurrency   Concurrency `json:"concurrency"`
}

func (s *surface) upstream() upstreamDocument {
	now := s.upstreamState()
	doc := upstreamDocument{URL: s.upstreamURL, State: now.State, Since: now.Since.UTC().Round(time.Millisecond), Reason: now.Reason, Concurrency: now.Concurrency}
	if !now.LastSuccess.IsZero() {
		last := now.LastSuccess.UTC().Round(time.Millisecond)
		doc.LastSuccessAt = &last
	}
	return doc
}

type namespaceDocument struct {
	Namespace            string        `json:"namespace"`
	Pending              int           `json:"pending"`
	PendingBytes         int64         `json:"pending_bytes"`
	OldestPendingSeconds float64       `json:"oldest_pending_seconds"`
	Waits                *waitDocument `json:"waits"` // null if it waits for nothing
	Paused               string        `json:"paused,omitempty"`
	ReadsRefused         string        `json:"reads_refused,omitempty"`
	// Suspect is null unless upstream seems to have lost entries of the namespace.
	Suspect *suspectDocument `json:"suspect"`
	// OlderAnswers is how many answers since the start showed an older state than was known.
	OlderAnswers int `json:"older_answers"`
	// Quota is null if the namespace has none, or if nothing has happened to it yet.
	Quota *quotaDocument `json:"quota"`
	// Bytes is how much the namespace holds, as far as is known. BytesLimit is null if there
	// is no limit, and upstream has said it if there is a time until which it counts.
	Bytes             int64      `json:"bytes"`
	BytesLimit        *int64     `json:"bytes_limit"`
	BytesLimitLearned *time.Time `json:"bytes_limit_learned_until,omitempty"`
	// ForeignWrites are those that others have made though the namespace is set exclusive; it is
	// left out if none was found.
	ForeignWrites *foreignDocument `json:"foreign_writes,omitempty"`
}

type foreignDocument struct {
	Found   int       `json:"found"`
	LastAt  time.Time `json:"last_found_at"`
	LastKey string    `json:"last_key"`
}

func (n *namespaceDocument) setSize(size journal.NamespaceSize) {
	n.Bytes = size.Bytes
	if size.Limited() {
		n.BytesLimit = &size.Limit
	}
	if !size.LearnedUntil.IsZero() {
		until := size.LearnedUntil.UTC().Round(time.Millisecond)
		n.BytesLimitLearned = &until
	}
}

type quotaDocument struct {
	Limit         int       `json:"limit"`
	Used          int       `json:"used"`
	Left          int       `json:"left"`
	Saved         int       `json:"saved"`
	ResetsAt      time.Time `json:"resets_at"`
	LingerSeconds float64   `json:"linger_seconds"`
}

func newQuotaDocument(q Quota) *quotaDocument {
	return &quotaDocument{
		Limit: q.Limit, Used: q.Used, Left: q.Left, Saved: q.Saved,
		ResetsAt: q.ResetsAt.UTC().Round(time.Millisecond), LingerSeconds: seconds(q.Linger),
	}
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
	s.awaitIndex(r.Context())
	st := s.journal.Stats()
	refusing, ready := s.takesWrites()
	doc := statusDocument{
		Version: s.version,
		Ready:   ready && !s.stopping.Load(), Journal: refusing,
		Upstream: s.upstream(), Identity: newIdentityDocument(s.identity.State()),
		Pending: st.Pending, PendingBytes: st.PendingBytes,
		OldestPendingSeconds: seconds(st.OldestAge()),
		DeadLetters:          st.DeadLetters, OpenDeadLetters: st.OpenDeadLetters, DeadLetterBytes: st.DeadBytes,
		LastSeq: st.LastSeq, Receipts: st.Receipts, Rebuilding: st.Rebuilding, DamagedCopies: st.DamagedCopies, DamagedTables: st.DamagedTables,
		Namespaces: s.namespaces(st),
	}
	return writeDocument(w, http.StatusOK, doc)
}

// namespaces describes, by name, the namespaces with pending writes, those that have used
// something of their quota, those that are nearly full, those that upstream lets nobody read,
// those that are set exclusive and are not, and those of which upstream has lost entries or has
// answered with older states.
func (s *surface) namespaces(st journal.Stats) []namespaceDocument {
	docs := make(map[string]*namespaceDocument, len(st.Namespaces))
	of := func(name string) *namespaceDocument {
		if docs[name] == nil {
			docs[name] = &namespaceDocument{Namespace: name}
		}
		return docs[name]
	}
	for name, n := range st.Namespaces {
		docs[name] = &namespaceDocument{
			Namespace: name, Pending: n.Pending, PendingBytes: n.PendingBytes,
			OldestPendingSeconds: seconds(n.OldestAge()), Paused: s.flusher.Paused(name),
			Waits: newWaitDocument(s.flusher.Waits(name)),
		}
	}
	for name, why := range s.readsRefused() {
		of(name).ReadsRefused = why
	}
	if s.quotas != nil {
		for name, q := range s.quotas() {
			of(name).Quota = newQuotaDocument(q)
		}
	}
	for name, suspicion := range s.journal.Belief.Suspects() {
		of(name).Suspect = newSuspectDocument(suspicion)
	}
	for name, n := range s.journal.Belief.OlderAnswers() {
		of(name).OlderAnswers = n
	}
	for name := range s.sizes.NearlyFull() {
		of(name)
	}
	for name, seen := range s.intruders.all() {
		of(name).ForeignWrites = &foreignDocument{seen.count, seen.last.UTC().Round(time.Millisecond), seen.key}
	}
	for name, doc := range docs {
		doc.setSize(s.sizes.Of(name))
	}
	sorted := make([]namespaceDocument, 0, len(docs))
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		sorted = append(sorted, *docs[name])
	}
	return sorted
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
	WaitingFor  float64       `json:"waiting_seconds"`
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
			WrittenAt: p.UpdatedAt, WaitingFor: seconds(p.Age()), Waits: newWaitDocument(s.flusher.EntryWaits(p.ID)),
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
