package entries

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/internal/walk"
)

// Suspect describes a suspect namespace: upstream seems to have lost entries that it has confirmed.
// While a namespace is suspect, its copies and rows stay.
type Suspect = record.Suspect

// LossLimit bounds how many confirmed entries of a namespace upstream may lack at once. Beyond it, the
// journal keeps these entries, and the namespace is suspect.
type LossLimit struct {
	// Entries is the number of missing entries from which the journal keeps them; 0 means that it
	// accepts any number.
	Entries int
	// Share is the share of the namespace's confirmed entries, from 0 to 1, that must be missing too.
	Share float64
}

// UsualLossLimit is the limit of most namespaces. Below it, other hosts may just be cleaning up; above
// it, upstream has probably lost data.
var UsualLossLimit = LossLimit{Entries: 10, Share: 0.5}

// lossWindow is how long the accepted losses of small namespaces are added up. A host with the wrong
// upstream.url asks for all namespaces that it uses within minutes.
const lossWindow = 10 * time.Minute

// Rejection is the reason why the journal does not accept an answer of upstream.
type Rejection uint8

// The reasons.
const (
	NotRejected Rejection = iota // the answer was accepted
	OlderAnswer                  // the journal knows a newer state
	DataLoss                     // upstream lacks an entry of a suspect namespace, see [Suspect]
)

// Trust decides which of upstream's answers the journal accepts. It rejects a state older than the
// known one (contract 7), and the loss of many entries at once. Its methods may be called concurrently.
type Trust struct {
	entries   *Entries
	lossLimit LossLimit
	logger    *slog.Logger

	mu       sync.RWMutex // one of the innermost locks
	suspects map[string]Suspect
	older    map[string]*olderAnswers
	accepted []acceptedLoss // within lossWindow, the oldest first
}

// olderAnswers counts the rejected older answers of a namespace.
type olderAnswers struct {
	count int
	last  time.Time // when the last one came
}

// olderRun is the longest pause within one run of older answers. The log gets one line for each run.
const olderRun = 10 * time.Minute

// acceptedLoss says that a namespace has lost all its entries, but fewer than the limit.
type acceptedLoss struct {
	at      time.Time
	entries int
}

func (t *Trust) recall() error {
	t.suspects, t.older = make(map[string]Suspect), make(map[string]*olderAnswers)
	prefix := []byte(record.HeaderPrefix)
	return store.Each(t.entries.store.DB(), prefix, record.After(prefix), func(key, value []byte) error {
		if body, err := record.Unseal(key, value); err == nil { // skip a damaged header
			// guard 9.46
			if h, err := record.DecodeHeader(body); err == nil && h.Suspect.Since != 0 {
				t.suspects[string(key[len(prefix):])] = h.Suspect
			}
		}
		return nil
	})
}

// Suspect describes a suspect namespace; ok is false if the namespace is not suspect.
func (t *Trust) Suspect(namespace string) (Suspect, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s, ok := t.suspects[namespace]
	return s, ok
}

// Suspects returns all suspect namespaces.
func (t *Trust) Suspects() map[string]Suspect {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.suspects)
}

// OlderAnswers returns, by namespace, how many answers since the start were older than the known state,
// or denied an entry that upstream lists.
func (t *Trust) OlderAnswers() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]int, len(t.older))
	for namespace, o := range t.older {
		if o.count > 0 {
			out[namespace] = o.count
		}
	}
	return out
}

// olderNamespaces bounds the number of namespaces whose older answers are counted.
const olderNamespaces = 10_000

// heard counts older answers from upstream, and logs the first one of a run.
func (t *Trust) heard(namespace string, older int) {
	if t.count(namespace, older) {
		t.logger.Warn("upstream has answered with an older state than it has confirmed before: botwired goes on with the newer one, "+
			"and asks again. If upstream is to be believed, say: botwired forget "+namespace, "namespace", namespace)
	}
}

// count counts older answers, and reports whether a run begins.
func (t *Trust) count(namespace string, older int) (begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.older[namespace]
	if o == nil {
		if len(t.older) >= olderNamespaces {
			return false
		}
		o = &olderAnswers{}
		t.older[namespace] = o
	}
	now := time.Now()
	begins = o.last.IsZero() || now.Sub(o.last) > olderRun // guard 7.29
	o.count += older
	o.last = now
	return begins
}

// checkedFor is how long an incomplete listing vouches for the entries that it lacks: upstream holds
// too many keys to have lost them all, and cannot list the others.
const checkedFor = time.Minute

// NeedsProof reports whether the caller must check upstream's list before it accepts that upstream does
// not hold the entry. It returns true if a copy shows that upstream has held the entry, unless a recent
// incomplete list lacks the entry. It returns false in a suspect namespace, and without a [LossLimit].
func (t *Trust) NeedsProof(id ID) (bool, error) {
	if err := t.entries.store.Acquire(); err != nil {
		return false, err
	}
	defer t.entries.store.Release()
	return t.unproven(id)
}

func (t *Trust) unproven(id ID) (bool, error) {
	c := t.entries
	if t.isSuspect(id.Namespace) || t.lossLimit.Entries == 0 { // guard 9.38
		return false, nil
	}
	found, _, err := c.Head(id)
	if err != nil || found == (Observation{}) {
		return false, err
	}
	h, listed, ok, err := readListed(c, c.store.DB(), id)
	if err != nil || !ok {
		return err == nil, err
	}
	at := max(h.FetchedAt, c.seen.get(ID{Namespace: id.Namespace}).confirmedAt)
	if h.Complete || store.Age(at) > checkedFor { // guard 9.39
		return true, nil
	}
	return listed, nil // guard 9.40
}

// suspicious reports whether too many of a namespace's confirmed entries are missing to accept the
// loss. It adds up the losses of small namespaces that are gone as a whole.
func (t *Trust) suspicious(namespace string, missing, of int) bool {
	limits := t.lossLimit
	if missing == 0 || limits.Entries == 0 || float64(missing) < limits.Share*float64(of) { // guard 9.42
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, already := t.suspects[namespace]
	if missing >= limits.Entries || len(t.suspects) > 0 && !already { // guard 9.41
		return true
	}
	if missing < of { // guard 9.45
		return false
	}
	now := time.Now()
	t.accepted = slices.DeleteFunc(t.accepted, func(l acceptedLoss) bool { return now.Sub(l.at) > lossWindow }) // guard 9.44
	all := missing
	for _, l := range t.accepted {
		all += l.entries
	}
	if all >= limits.Entries { // guard 9.43
		return true
	}
	t.accepted = append(t.accepted, acceptedLoss{now, missing})
	return false
}

// note updates a namespace's state in memory, and returns the previous state.
func (t *Trust) note(namespace string, s Suspect) (past Suspect) {
	t.mu.Lock()
	defer t.mu.Unlock()
	past = t.suspects[namespace]
	if s.Since == 0 {
		delete(t.suspects, namespace)
	} else {
		t.suspects[namespace] = s
	}
	return past
}

func (t *Trust) tell(namespace string, past, now Suspect) {
	switch {
	case past.Since == 0 && now.Since != 0:
		t.logger.Error("upstream no longer holds entries that it has confirmed: botwired goes on serving its copies, marked as suspect, until a person decides. "+
			"Is upstream.url right? If upstream has lost them: botwired restore "+namespace+". If they were deleted there: botwired forget "+namespace,
			"namespace", namespace, "missing", now.Missing, "of", now.Of)
	case past.Since != 0 && now.Since == 0:
		t.logger.Info("upstream is believed again: the namespace is no longer suspect", "namespace", namespace, "was_missing", past.Missing)
	}
}

// isSuspect reports whether a namespace is suspect. Its copies and listing must stay, because upstream
// may have lost them.
func (t *Trust) isSuspect(namespace string) bool {
	_, ok := t.Suspect(namespace)
	return ok
}

// Decided ends that a namespace is suspect, durably, without a list of upstream's: a person has decided, and all that is here
// is pending. It does nothing if the namespace is not suspect.
func (t *Trust) Decided(namespace string) error {
	c := t.entries
	if err := c.store.Acquire(); err != nil {
		return err
	}
	defer c.store.Release()
	unlock := c.Lock(namespace)
	defer unlock()
	h, ok, err := readHeader(c.store.DB(), namespace)
	if err != nil || !ok || h.Suspect.Since == 0 {
		return store.IgnoreDamage(err)
	}
	h.Suspect = Suspect{}
	return c.store.Update(&earlyChange{
		ChangeFunc: func(tx *store.Tx) error {
			setHeader(tx, namespace, h)
			return nil
		},
		applied: func() {
			t.note(namespace, h.Suspect)
			unlock()
		},
	})
}

// Copies returns, in key order, the keys and times of up to most settled copies of a namespace that follow
// after and have no pending write.
func (t *Trust) Copies(namespace, after string, most int) (kept []Row, err error) {
	_, err = t.entries.walk(namespace, after, func(w *walk.Keys, key string) (bool, error) {
		o, err := w.Copy() // a damaged one is given up when somebody reads it
		if err == nil && o != (Observation{}) && !w.IsPending() && !t.entries.queue.IsPending(ID{Namespace: namespace, Key: key}) {
			kept = append(kept, Row{Key: key, UpdatedAt: o.UpdatedAt})
		}
		return len(kept) < most, nil
	})
	return kept, err
}

// judge decides whether the journal accepts an answer about an entry whose copy is past.
func (f *filling) judge(past settledCopy, o *Observation) (Rejection, error) {
	switch {
	case !past.intact && !past.gone:
	// guard 9.49
	case o == nil && f.Trust.isSuspect(f.id.Namespace):
		return DataLoss, nil
	case o != nil && past.newerThan(o): // guard 7.22
		return OlderAnswer, nil
	case o == nil && f.listed:
		if unproven, err := f.Trust.unproven(f.id); unproven || err != nil { // guard 9.36
			return OlderAnswer, err
		}
	}
	return NotRejected, nil
}
