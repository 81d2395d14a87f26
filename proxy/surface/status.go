package surface

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

// takesWrites returns whether and why the journal refuses writes. ready says that the journal could
// take a write now.
func (s *Surface) takesWrites() (doc api.JournalState, ready bool) {
	err := s.journal.Err()
	since, full := s.journal.Full()
	if why := cmp.Or(err, full); why != nil {
		doc = api.JournalState{RefusesWrites: true, Reason: refusalReason(why)}
	}
	doc.Since = stamp(since)
	return doc, err == nil
}

func refusalReason(err error) string {
	if errors.Is(err, journal.ErrFull) {
		return err.Error() + ". " + WhileFull
	}
	return err.Error()
}

func (s *Surface) upstream() api.UpstreamState {
	now := s.opts.UpstreamState()
	now.URL, now.Since = s.opts.UpstreamURL, now.Since.UTC().Round(time.Millisecond)
	if last := now.LastSuccessAt; last != nil {
		now.LastSuccessAt = stamp(*last)
	}
	if s.opts.Watch != nil {
		watch := s.opts.Watch.State()
		watch.Since = watch.Since.UTC().Round(time.Millisecond)
		now.Watch = &watch
		if watch.Refused != "" {
			now.State, now.Reason, now.Since = "down", watch.Refused, watch.Since
		}
	}
	return now
}

// indexPatience is how long, just after a start, an answer about pending writes waits for the journal's
// index. After that the answer shows the known writes, and says that there are more.
const indexPatience = time.Second

func (s *Surface) awaitIndex(ctx context.Context) {
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

func (s *Surface) status(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	most := p.number("namespaces", maxLimit, 0, maxLimit)
	if p.Err != nil {
		return p.Err
	}
	s.awaitIndex(r.Context())
	doc, err := s.describe(time.Now())
	if err != nil {
		return err
	}
	if p.values.Has("namespaces") {
		doc.Namespaces = api.MostUrgent(doc.Namespaces, most)
	}
	return writeDocument(w, http.StatusOK, doc)
}

func (s *Surface) describe(now time.Time) (*api.Status, error) {
	known := s.look(now)
	doc := known.status
	var err error
	if doc.Figures, err = s.figures.now(); err != nil {
		return nil, err
	}
	doc.TimeSaved = s.history.timeSaved(&doc.Figures)
	if oldest := s.journal.Stats().OldestOpen; oldest > 0 {
		letters, err := s.journal.DeadLetters(oldest-1, 1)
		if err != nil {
			return nil, err
		}
		if len(letters) > 0 {
			known.openSince = unixTime(letters[0].RefusedAt)
		}
	}
	known.largest = s.largest
	doc.Summary = summarize(known)
	return doc, nil
}

// Status returns the status without the figures, which the metrics have from elsewhere. It reads nothing
// from the disk, so it cannot fail.
func (s *Surface) Status() *api.Status {
	known := s.look(time.Now())
	known.status.Summary = summarize(known)
	return known.status
}

// look returns what the summary goes by, in a status that lacks it and the figures.
func (s *Surface) look(now time.Time) *facts {
	st := s.journal.Stats()
	refusing, ready := s.takesWrites()
	stopping := s.stopping.Load()
	doc := &api.Status{
		Version: s.opts.Version, StartedAt: s.startedAt.UTC().Round(time.Millisecond), UptimeSeconds: seconds(now.Sub(s.startedAt)),
		DataDir: s.opts.DataDir, Listen: s.opts.Listen,
		Ready: ready && !stopping, Stopping: stopping, Journal: refusing,
		Upstream: s.upstream(),
		Pending:  st.Pending, PendingBytes: st.PendingBytes,
		OldestPendingSeconds: seconds(st.OldestAge()),
		DeadLetters:          st.DeadLetters, OpenDeadLetters: st.OpenDeadLetters, Conflicts: st.Conflicts,
		LastSeq: st.LastSeq, Rebuilding: st.Rebuilding, DamagedFiles: st.DamagedFiles,
		Callers: s.Callers.list(), Namespaces: s.namespaces(st),
	}
	doc.NamespacesTotal = len(doc.Namespaces)
	if at := s.journal.History.Since(); at != 0 {
		since := unixTime(at)
		doc.History.Since = &since
	}
	return &facts{now: now, status: doc, openIn: st.OpenIn, failed: errors.Is(s.journal.Err(), journal.ErrFailed)}
}

func unixTime(seconds float64) time.Time {
	return time.UnixMicro(int64(seconds * 1e6)).UTC().Round(time.Millisecond)
}

// seconds returns a duration in seconds, cut to milliseconds.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1e3 }

func (s *Surface) livez(w http.ResponseWriter, _ *http.Request, _ *Parameters) error {
	return writeDocument(w, http.StatusOK, map[string]string{"status": "alive"})
}

var errStopping = wire.Detail(http.StatusServiceUnavailable,
	"not ready: botwired is stopping. It answers requests until it has flushed what is pending, or flush.drain_timeout is over.")

// readyz answers 200 if the journal could take a write now and the daemon is not stopping.
func (s *Surface) readyz(w http.ResponseWriter, _ *http.Request, _ *Parameters) error {
	if err := s.journal.Err(); err != nil {
		return wire.Detail(http.StatusServiceUnavailable, "not ready: "+refusalReason(err))
	}
	if s.stopping.Load() { // guard 22.16
		return errStopping
	}
	return writeDocument(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Surface) exposeMetrics(w http.ResponseWriter, r *http.Request, _ *Parameters) error {
	s.metrics.ServeHTTP(w, r)
	return nil
}

// describeHTTP answers with the OpenAPI description, or 304 to a caller that has it.
func (s *Surface) describeHTTP(w http.ResponseWriter, r *http.Request, _ *Parameters) error {
	wanted, err := memory.ParseConditions(r.Header["If-Match"], r.Header["If-None-Match"])
	if err != nil {
		return err
	}
	doc, err := s.openAPI()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // a new binary is seen at once
	h.Set("Etag", doc.Tag)
	if wanted.Unchanged(doc.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	WriteJSON(w, http.StatusOK, doc.JSON)
	return nil
}

// jsonType is shared by all answers: nobody changes a header's values in place.
var jsonType = []string{"application/json"}

// WriteJSON answers with a JSON body.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // if this fails, the caller has gone
}

func writeDocument(w http.ResponseWriter, status int, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	WriteJSON(w, status, append(body, '\n'))
	return nil
}

// stamp returns a time for a document; nil if it is zero.
func stamp(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC().Round(time.Millisecond)
	return &at
}

// WhileFull says what still works while the disk or the journal is full (contract 3). The journal's error
// says what happens next.
const WhileFull = "Reads and flushing go on."
