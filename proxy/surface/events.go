package surface

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/feed"
	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/journal"
)

const (
	// eventsKept bounds the events that are kept for slow and returning readers.
	eventsKept    = 4096
	eventsReaders = 32
	// eventsResume is how long events are still kept after the last reader has left.
	eventsResume = time.Minute
	// resetPause is the pause after a reset: a reader that cannot follow all events reads everything again at
	// most this often.
	resetPause = time.Second
	// reconnectAfter is when a reader that has lost its stream should reconnect.
	reconnectAfter = time.Second
)

// The names of the events.
const (
	eventPending    = "pending"
	eventSent       = "sent"
	eventSettled    = "settled"
	eventSuperseded = "superseded"
	eventDead       = "dead"
	eventDropped    = "dropped"
	eventChanged    = "changed"
	eventUpstream   = "upstream"
	eventReset      = "reset"
)

type event struct {
	name      string
	namespace string // empty for upstream's events, which every reader gets
	doc       any
}

// Events are the events of this process. The journal and the flusher add them under their locks, so that an
// entry's events are in order.
type Events struct {
	feed    *feed.Feed[event]
	process string // distinguishes this process's event numbers from another's
}

// add adds an event if anybody may read it. doc makes its document.
func (e *Events) add(name, namespace string, doc func(at float64) any) {
	if e.feed.Wanted() {
		e.feed.Add(event{name, namespace, doc(unixSeconds(time.Now()))})
	}
}

func newEvents() *Events {
	return &Events{
		feed:    feed.New[event](feed.Options{Size: eventsKept, Readers: eventsReaders, Keeps: eventsResume}),
		process: strings.ToLower(rand.Text()[:10]),
	}
}

// Changed adds the events of a journal change. A new write comes before the end of the write that it
// supersedes.
func (e *Events) Changed(c journal.Change) {
	if c.Written && !c.Found {
		e.add(eventPending, c.Namespace, func(at float64) any {
			return api.WriteEvent{At: at, Seq: c.Seq, Namespace: c.Namespace, Key: c.Key, Op: c.Op.String(), Bytes: c.Bytes, Author: c.Author}
		})
	}
	if c.Ended.Seq != 0 {
		e.add(endingName(&c.Ended), c.Namespace, func(at float64) any {
			end := c.Ended
			doc := api.WriteEvent{At: at, Seq: end.Seq, Namespace: c.Namespace, Key: c.Key, Op: end.Op.String(), Bytes: end.Bytes, Reason: end.Reason}
			if end.By != 0 {
				doc.By = &end.By
			}
			return doc
		})
	}
}

func endingName(end *journal.Ending) string {
	switch {
	case end.State == journal.ReceiptSettled:
		return eventSettled
	case end.State == journal.ReceiptSuperseded:
		return eventSuperseded
	case end.Dropped:
		return eventDropped
	}
	return eventDead
}

// Sending must be called right before a pending write's request leaves, but not for a superseded write.
func (s *Surface) Sending(w journal.Write) {
	s.Events.add(eventSent, w.Namespace, func(at float64) any {
		return api.WriteEvent{At: at, Seq: w.Seq, Namespace: w.Namespace, Key: w.Key, Op: w.Op.String(), Bytes: len(w.Value)}
	})
}

// VersionSeen counts a version that the watch reports, and adds an event for another host's version.
func (s *Surface) VersionSeen(id journal.ID, own bool) {
	if own {
		s.opts.Metrics.OwnVersions.Inc()
		return
	}
	s.opts.Metrics.ForeignVersions.Inc()
	s.Events.add(eventChanged, id.Namespace, func(at float64) any {
		return api.ChangedEvent{At: at, Namespace: id.Namespace, Key: id.Key}
	})
}

// Changed must be called for each change that the journal announces.
func (s *Surface) Changed(c journal.Change) {
	s.Events.Changed(c)
	if c.Ended.State == journal.ReceiptDead {
		s.AgentState.refuse()
	}
}

// UpstreamChanged must be called with each new state of upstream, also if only Sick has changed.
func (s *Surface) UpstreamChanged(now api.UpstreamState) {
	s.AgentState.change()
	s.Events.add(eventUpstream, "", func(at float64) any {
		return api.UpstreamEvent{At: at, State: now.State, Since: unixSeconds(now.Since), Reason: now.Reason}
	})
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// The reasons for a reset, for people.
const (
	resetRestarted = "another process of the daemon sent the events until then"
	resetGone      = "the events after that are not kept any more"
	resetSlow      = "there were more events than this stream takes"
)

// followEvents streams the events from now on, or after the last one that the caller has seen.
func (s *Surface) followEvents(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace := p.namespace()
	if p.Err != nil {
		return p.Err
	}
	from, reset, err := s.Events.resume(lastEvent(r))
	if err != nil {
		return tooManyReaders(err)
	}
	defer from.Close()
	f := &eventFollower{events: s.Events, reader: from, namespace: namespace, look: s.opts.UpstreamState}
	begin := sse.AppendRetry(nil, reconnectAfter)
	if reset != "" {
		begin = f.reset(begin, reset)
	} else {
		begin = sse.AppendID(begin, s.Events.name(from.Seen()))
	}
	return (&stream[event]{from, begin, f.tell, f.beat}).answer(s.tasks, w, r)
}

// lastEvent returns the ID of the last event that the caller has seen; empty if there is none. A browser
// that reconnects sends it in the Last-Event-ID header, which takes precedence over the parameter after.
func lastEvent(r *http.Request) string {
	return cmp.Or(r.Header.Get("Last-Event-Id"), r.URL.Query().Get("after"))
}

// resume returns a reader of the events after last. reset says why the reader misses some.
func (e *Events) resume(last string) (from *feed.Reader[event], reset string, err error) {
	if last == "" {
		from, err = e.feed.Follow()
		return from, "", err
	}
	number, ours := strings.CutPrefix(last, e.process+"-")
	seen, parseErr := strconv.ParseUint(number, 10, 64)
	if !ours || parseErr != nil { // guard 13.32
		from, err = e.feed.Follow()
		return from, resetRestarted, err
	}
	from, ok, err := e.feed.Resume(seen)
	if !ok {
		reset = resetGone
	}
	return from, reset, err
}

func (e *Events) name(number uint64) string { return e.process + "-" + strconv.FormatUint(number, 10) }

type eventFollower struct {
	events    *Events
	reader    *feed.Reader[event]
	namespace string // empty for all
	look      func() api.UpstreamState
}

func (f *eventFollower) tell(dst []byte, records []feed.Record[event], missed uint64) ([]byte, time.Duration) {
	if missed > 0 {
		f.reader.Skip() // reading everything again covers the skipped events too
		// guard 13.31
		return f.reset(dst, resetSlow), resetPause
	}
	for i := range records {
		e := &records[i].Value
		if f.namespace == "" || e.namespace == "" || e.namespace == f.namespace {
			dst = appendEvent(dst, f.events.name(records[i].Number), e.name, e.doc)
		}
	}
	return dst, 0
}

// beat asks for upstream's state, because a bad state may end by itself, and sends an ID, so that the reader
// resumes after the events of other namespaces.
func (f *eventFollower) beat(dst []byte) []byte {
	f.look()
	return sse.AppendID(sse.AppendComment(dst, "botwired"), f.events.name(f.reader.Seen()))
}

func (f *eventFollower) reset(dst []byte, reason string) []byte {
	return appendEvent(dst, f.events.name(f.reader.Seen()), eventReset, api.ResetEvent{At: unixSeconds(time.Now()), Reason: reason})
}

func appendEvent(dst []byte, id, name string, doc any) []byte {
	data, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it marshals only numbers and texts
	}
	return sse.AppendEvent(dst, id, name, data)
}
