package surface

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

// AgentState describes the state of their memory to agents: the findings of the status that concern them, in words for a
// model. It has a new state by the next answer, or within a second. Its methods may be called concurrently.
type AgentState struct {
	look func() *agentTexts // nil if all is well; it reads no disk

	changes atomic.Uint64 // counts what may change the state
	looked  atomic.Uint64 // changes before the newest look that has ended
	refused atomic.Bool   // a write has become a dead letter since tick
	known   atomic.Pointer[agentTexts]
	looking sync.Mutex // one look at a time: callers wait for the one under way
}

// agentTexts are the descriptions at one moment. None holds a word of upstream's or of another namespace.
type agentTexts struct {
	all string            // of namespaces that of lacks; empty if all is well
	of  map[string]string // of namespaces that have a finding of their own
}

// Of describes the state of a namespace's memory; empty if all is well.
func (a *AgentState) Of(namespace string) string {
	if a.isOutdated() { // guard 9.92
		a.learn()
	}
	now := a.known.Load()
	if now == nil {
		return ""
	}
	if text, own := now.of[namespace]; own { // guard 9.91
		return text
	}
	return now.all
}

// AppendHeader appends the header line for a namespace, unless all is well.
func (a *AgentState) AppendHeader(dst []byte, namespace string) []byte {
	if text := a.Of(namespace); text != "" {
		dst = append(append(append(dst, wire.StateHeader+": "...), text...), "\r\n"...)
	}
	return dst
}

// SetHeader sets the header for a namespace, unless all is well.
func (a *AgentState) SetHeader(h http.Header, namespace string) {
	if text := a.Of(namespace); text != "" {
		h.Set(wire.StateHeader, text)
	}
}

// change must be called when the next answer may have to say something else. It takes no locks.
func (a *AgentState) change() { a.changes.Add(1) }

// refuse must be called for each dead letter. The next answer counts the first one of a second, and the first answer after
// tick the others: in a burst, answers do not look again and again.
func (a *AgentState) refuse() {
	if !a.refused.Swap(true) { // guard 9.96
		a.change()
	}
}

func (a *AgentState) isOutdated() bool { return a.looked.Load() != a.changes.Load() }

// tick must be called each second: no event announces some changes, and the next answer looks for them.
func (a *AgentState) tick() {
	a.refused.Store(false)
	a.change()
}

// learn looks unless a look has begun since the last change. A change during the look needs another look.
func (a *AgentState) learn() {
	a.looking.Lock()
	defer a.looking.Unlock()
	changes := a.changes.Load()
	if changes == a.looked.Load() {
		return // somebody else has just looked
	}
	a.known.Store(a.look())
	a.looked.Store(changes) // guard 9.95
}

// agentTexts returns nil if all is well.
func (f *facts) agentTexts() *agentTexts {
	namespaces, open := f.status.Namespaces, f.openIn
	about := func(n *api.NamespaceStatus) string {
		f.status.Namespaces = nil
		if n != nil {
			f.status.Namespaces = []api.NamespaceStatus{*n}
			f.status.OpenDeadLetters = open[n.Namespace]
		}
		return f.agentText()
	}
	of := make(map[string]bool)
	for name := range open {
		of[name] = true
	}
	for name := range f.status.Upstream.Sick {
		of[name] = true
	}
	f.status.OpenDeadLetters = 0
	texts := &agentTexts{all: about(nil), of: make(map[string]string)}
	for i := range namespaces {
		if text := about(&namespaces[i]); text != texts.all {
			texts.of[namespaces[i].Namespace] = text
		}
		delete(of, namespaces[i].Namespace)
	}
	for name := range of {
		texts.of[name] = about(&api.NamespaceStatus{Namespace: name})
	}
	if texts.all == "" && len(texts.of) == 0 {
		return nil
	}
	return texts
}

// agentText joins the sentences for agents about the findings, the worst first.
func (f *facts) agentText() string {
	summary := summarize(f)
	var parts []string
	for _, one := range append([]api.Finding{summary.Finding}, summary.Also...) {
		if text := f.agentSentence(&one); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}

const waitHere = "they wait here, durably, "

// agentSentence describes a finding to an agent of its namespace; empty if the agent need not know.
func (f *facts) agentSentence(one *api.Finding) string {
	switch one.Kind {
	case "disk_failed", "writes_refused":
		// It stands on the answers of writes that are taken, too: a small one may fit where a large one has not.
		return "botwired has refused writes: its disk has failed, or the room for them is used up. A write that it acknowledges is kept, and what it took before is safe."
	case "upstream_down", "no_bucket", "upstream_degraded": // which of them changes within an outage, and what to do does not
		if sick := f.status.Upstream.Sick; len(sick) > 0 {
			var since time.Time
			if len(f.status.Namespaces) > 0 {
				since = sick[f.status.Namespaces[0].Namespace]
			}
			if since.IsZero() { // guard 9.93
				return ""
			}
			one.Since = &since
		}
		return "Upstream has failed to answer" + f.sinceThen(one) +
			": answers may be botwired's copies, and writes are kept here, durably, until it has them."
	case "upstream_lost", "data_loss":
		return "Upstream has lost entries of this memory" + f.sinceThen(one) +
			": answers may be botwired's copies. A person has to decide (botwired restore, or botwired forget)."
	case "writes_paused":
		return "Upstream does not let the writes of this memory in: " + waitHere + "until a person has mended that (botwired status)."
	case "reads_refused":
		return "Upstream does not let this memory be read: answers are botwired's copies."
	case "not_opened":
		return "Upstream holds entries of this memory that its keys do not open: botwired does not give them out."
	case "dead_letters":
		n := f.status.OpenDeadLetters
		return "Upstream has refused " + words.Count(n, "write") + " of this memory for good: a person has to decide about " +
			words.ByNumber(n, "it", "them") + " (botwired dead-letters)."
	case "namespace_full":
		return "Upstream has no room for more in this memory: new values wait here, durably. Delete what is not needed: deletes go."
	case "quota_used_up", "quota_delays", "throttled":
		return f.limitSentence(one.Kind)
	}
	return ""
}

// longThrottle is the shortest wait, to come or gone by, that agents hear of.
const longThrottle = time.Minute

// limitSentence says until when the writes of the namespace wait. While a few of a quota's writes are left, that is an
// estimate for a new write: the first of those that wait goes before.
func (f *facts) limitSentence(kind api.Kind) string {
	n := &f.status.Namespaces[0]
	var until time.Time
	about := ""
	switch {
	case kind == "quota_delays":
		about, until = "about ", f.now.Add(time.Duration(n.Quota.LingerSeconds*float64(time.Second)))
		if resets := n.Quota.ResetsAt; resets.Before(until) {
			until = resets
		}
	case n.Waits != nil && n.Waits.Until != nil:
		until = *n.Waits.Until
	case n.Quota != nil && kind == "quota_used_up":
		until = n.Quota.ResetsAt
	}
	if kind == "throttled" && max(until.Sub(f.now), time.Duration(n.OldestPendingSeconds*float64(time.Second))) < longThrottle {
		return ""
	}
	const limited = "Upstream limits the writes of this memory: "
	if !until.After(f.now) { // it is unknown, or over
		return limited + "they wait here, durably."
	}
	return limited + waitHere + "until " + about + f.clock(until) + "."
}

func (f *facts) sinceThen(one *api.Finding) string {
	if one.Since == nil {
		return ""
	}
	return " since " + f.clock(*one.Since)
}

// clock returns a time as agents read it, with its date if that is another one.
func (f *facts) clock(at time.Time) string {
	if at.UTC().Truncate(24 * time.Hour).Equal(f.now.UTC().Truncate(24 * time.Hour)) {
		return clock(at)
	}
	return at.UTC().Format("2006-01-02 15:04 UTC")
}
