package sim

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Every state that a host overwrites is kept somewhere (contract 17): the host has it in the entry's history, as it
// knew that state, or as a dead letter. The contract leaves open
//
//   - what comes upstream after the answer to the write's fence: the host cannot see it. That is so from a confirmed
//     write of the host's own on, if the next one follows within 250 ms and has no fence;
//   - what is older than the start of the daemon that made the write and knew nothing of the entry.

const (
	// away is the name of hosts that are no daemons.
	away = "away"
	// fenceAge is how old the answer to a fence may be when the write leaves. Of an upstream that is slower, the answer
	// to the last of fenceTries counts.
	fenceAge   = 2 * time.Second
	fenceTries = 5
	// lately is how long a host needs no fence for an entry after it has sent a write that was confirmed, and what the next
	// one may take on its way.
	lately = (250 + 10) * time.Millisecond
)

// overwrites are the service's notes on what hosts see before they write, and what they overwrite. Its lock guards them.
type overwrites struct {
	looked    map[sight]time.Time // the last answer to a host's fence
	looks     map[sight]int       // the answers to a host's fences since its last write
	sent      map[sight]time.Time // a host's last write
	confirmed map[sight]confirmed
	ignorant  map[making]time.Time // the start of the daemon that made the write and knew nothing of the entry
	all       []overwrite
}

// confirmed is a host's last confirmed write.
type confirmed struct{ sent, carriedOut time.Time }

// making is a host's write to an entry.
type making struct {
	sight
	what state
}

// overwrite is a write that has replaced another host's state, which its host has to keep.
type overwrite struct {
	making
	value string
	came  time.Time // upstream
}

func newOverwrites() overwrites {
	return overwrites{
		looked: make(map[sight]time.Time), looks: make(map[sight]int), sent: make(map[sight]time.Time), confirmed: make(map[sight]confirmed), ignorant: make(map[making]time.Time),
	}
}

// looking is the flusher's engine. It marks the flusher's reads: a reader's answer does not count as a fence's.
type looking struct{ upstream.Engine }

var flushers = trace.Context{Parent: "00-10000000000000000000000000000000-1000000000000000-00"}

func (e looking) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	return e.Engine.Get(trace.With(ctx, flushers), id)
}

// shows notes that a host gets an answer to a read.
func (o *overwrites) shows(r *http.Request, id journal.ID) {
	if trace.FromHeader(r.Header) == flushers {
		of := sightOf(r, id)
		o.looked[of] = time.Now()
		o.looks[of]++
	}
}

// span is a time. The host of a write has to keep the states that have come upstream within it.
type span struct{ from, to time.Time }

// spanKey is the key under which a write's context has its span.
type spanKey struct{}

// arrives notes a write, which arrives when it is sent. It returns a violation if the write has no fence.
func (o *overwrites) arrives(r *http.Request, id journal.ID, what state, sealed bool) (keeps span, violation string) {
	of := sightOf(r, id)
	seen, own := o.looked[of], o.confirmed[of]
	switch {
	case seen.After(o.sent[of]) && (time.Since(seen) <= fenceAge || o.looks[of] >= fenceTries):
	case own.carriedOut.After(seen) && time.Since(own.sent) <= lately && !sealed:
		seen = own.carriedOut
	default:
		violation = fmt.Sprintf("contract 17: host %q writes %s at %s, and was last shown it at %s; its last write that was confirmed came at %s, and was carried out at %s",
			of.host, id, time.Now(), seen, own.sent, own.carriedOut)
	}
	o.sent[of], o.looks[of] = time.Now(), 0
	return span{o.ignorant[making{of, what}], seen}, violation
}

// replace notes that a write is carried out over an old state, if there is one. heard says that the host learns of it.
func (o *overwrites) replace(r *http.Request, id journal.ID, what state, old stored, heard bool) {
	of := sightOf(r, id)
	keeps, _ := r.Context().Value(spanKey{}).(span)
	others := !old.came.IsZero() && old.by != of.host && what != state{true, old.value}
	if others && !old.came.Before(keeps.from) && old.came.Before(keeps.to) {
		o.all = append(o.all, overwrite{making{of, what}, old.value, old.came})
	}
	if heard {
		o.confirmed[of] = confirmed{o.sent[of], time.Now()}
	}
}

// starts notes that a host's daemon starts, which nobody has told to stop: the writes that it finds pending were made
// before, and its predecessor waits for nothing.
func (s *service) starts(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.windows.stopping, host)
	maps.DeleteFunc(s.underWay, func(of sight, _ *int) bool { return of.host == host })
	maps.DeleteFunc(s.windows.again, func(of sight, _ bool) bool { return of.host == host })
	maps.DeleteFunc(s.overwrites.ignorant, func(m making, _ time.Time) bool { return m.host == host })
}

// makes notes whether the daemon knows anything of an entry to which a caller is about to write. A write that replaces
// a pending one knows no more than that did.
func (n *node) makes(id journal.ID, what state) {
	if known, err := n.journal.Lookup(id); err != nil || known.Seq == 0 {
		n.ignorant[id] = err == nil && known.Kind == journal.Unknown
	}
	n.up.mu.Lock()
	defer n.up.mu.Unlock()
	m := making{sight{n.with.name, id}, what}
	if delete(n.up.overwrites.ignorant, m); n.ignorant[id] {
		n.up.overwrites.ignorant[m] = n.began
	}
}

// unkept returns an error if a daemon has overwritten a state and does not keep it. evicted, if not nil, reports
// whether the daemon may have dropped it for want of room.
func (s *service) unkept(n *node, evicted func(id journal.ID, value string) bool) error {
	s.mu.Lock()
	all := s.overwrites.all
	s.mu.Unlock()
	for _, o := range all {
		if o.host != n.with.name || evicted != nil && evicted(o.id, o.value) {
			continue
		}
		kept, err := n.kept(o.id)
		if err != nil {
			return err
		}
		if !slices.Contains(kept, o.value) {
			return fmt.Errorf("contract 17: host %q has overwritten %s of %s, which came after %s, with %s, and keeps only %q",
				o.host, o.value, o.id, o.came.Sub(s.started), o.what, kept)
		}
	}
	return nil
}

// kept returns the values that the daemon has of an entry in its history.
func (n *node) kept(id journal.ID) (values []string, err error) {
	versions, err := n.journal.History.Of(id, 10_000)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		values = append(values, v.Value)
	}
	return values, nil
}
