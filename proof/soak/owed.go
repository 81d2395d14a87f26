package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/numbered"
)

// refusedWrites is how many writes upstream refuses for good, each in a namespace of its own. They are dead letters.
const refusedWrites = 8

func refusedEntry(n int) *numbered.Entry {
	return numbered.NewEntry(fmt.Sprint("refused-", n), "letter")
}

// loss is what the daemon may have lost.
type loss struct {
	damage []damage
	since  time.Time   // what was acknowledged after it; zero for nothing
	said   []*recovery // and what these name
}

// unclear reports whether a recovery did not know all that it had lost, or what has come back.
func (l *loss) unclear() bool {
	return slices.ContainsFunc(l.said, func(r *recovery) bool { return r.Missing.unclear() })
}

// names reports whether a recovery has named a record that is missing, or does not know which are.
func (l *loss) names(record string) bool {
	return l.unclear() || slices.ContainsFunc(l.said, func(r *recovery) bool {
		return slices.ContainsFunc(r.Missing.Records, func(named string) bool { return strings.HasSuffix(named, " "+record) })
	})
}

// state is what somebody holds of an entry.
type state struct {
	value string
	found bool
}

// held is what a daemon and upstream hold of an entry.
type held struct {
	pending  bool
	here     state // if pending
	upstream state
}

// examine compares what a daemon without callers and upstream holds with what it owes: each write that it has
// acknowledged is upstream or pending, unless it may be lost. Afterwards, readers may get older writes of the entries
// that have lost something.
func (s *soak) examine(ctx context.Context, d *daemon, may *loss) error {
	c := s.callerOf(d)
	var doc api.Pending
	if err := get(ctx, c, "/_botwired/pending?limit=10000", &doc); err != nil {
		return err
	}
	pending := make(map[string]bool)
	for _, p := range doc.Pending {
		pending[p.Namespace+"/"+p.Key] = true
	}
	look := func(e *numbered.Entry) (h held, err error) {
		if h.upstream.value, h.upstream.found, err = s.up.holds(ctx, s.path(e)); err != nil {
			return h, err
		}
		if h.upstream.value, err = s.open(e, h.upstream.value); err != nil {
			return h, err
		}
		if h.pending = pending[e.Namespace+"/"+e.Key]; !h.pending {
			return h, nil
		}
		h.here, err = readState(ctx, c, e)
		return h, err
	}
	entries := make(map[*numbered.Entry]held)
	for _, e := range s.load.keys {
		h, err := look(e)
		if err != nil {
			return err
		}
		entries[e] = h
	}
	logs := make(map[*appended]held)
	for _, log := range s.load.logs {
		h, err := look(log.entry())
		if err != nil {
			return err
		}
		logs[log] = h
	}
	if err := s.owedLetters(ctx, c, may); err != nil {
		return err
	}
	s.load.end(func() {
		before := s.harm.lost
		for e, h := range entries {
			s.judge(e, h, may)
		}
		for log, h := range logs {
			s.judgeLog(log, h, may)
		}
		s.boundLost(s.harm.lost-before, may)
	})
	return nil
}

// judge finds out whether an entry's last acknowledged write is there.
func (s *soak) judge(e *numbered.Entry, h held, may *loss) {
	owed := e.Oldest()
	if !may.since.IsZero() {
		owed = e.OldestAt(may.since)
	}
	if err := e.Allows(0, h.upstream.value, h.upstream.found); err != nil {
		s.breach("upstream, %s %v", e.Path(), err)
	}
	there := e.Allows(owed, h.upstream.value, h.upstream.found)
	shown := there
	if h.pending {
		shown = e.Allows(owed, h.here.value, h.here.found)
	}
	if shown != nil {
		lost := there != nil
		s.missing(e, lost, shown, may)
		least := 0
		if n, ok := numbered.Number(e.Key, h.upstream.value); ok {
			least = n
		}
		s.doubted[e] = max(s.doubted[e], least)
		owed = 0
	}
	e.Forget(owed)
}

// missing notes that an entry's last acknowledged write is neither upstream nor pending, or is upstream, and an older
// one is pending again.
func (s *soak) missing(e *numbered.Entry, lost bool, shown error, may *loss) {
	switch {
	case !lost && may.unclear():
	case lost && may.names(e.Namespace+"/"+e.Key):
		s.harm.lost++
	default:
		what := "has an older write pending"
		if lost {
			what = "has lost an acknowledged write"
		}
		s.breach("%s %s: it %v; %s", e.Path(), what, shown, may)
	}
}

// judgeLog does the same for an entry to which numbers are appended.
func (s *soak) judgeLog(log *appended, h held, may *loss) {
	there := log.judge(h.upstream.value, may.since, true)
	shown := there
	if h.pending {
		shown = log.judge(h.here.value, may.since, true)
	}
	var values []string
	if e := log.entry(); shown != nil {
		s.missing(e, there != nil, shown, may)
		s.doubtedLogs[e.Path()] = true
		values = append(values, h.upstream.value)
		if h.pending {
			values = append(values, h.here.value)
		}
	}
	log.forget(may.since, values...)
}

// oneFlip says whether all damage was one flipped bit in a log.
func (s *soak) oneFlip(may *loss) bool {
	return len(may.damage) == 1 && may.damage[0].isLog() && may.damage[0].flipped
}

// boundLost checks contract 4: a damaged byte in a log costs the write that it is in.
func (s *soak) boundLost(lost int, may *loss) {
	if s.oneFlip(may) && lost > 1 {
		s.breach("a damaged bit of a log has cost %d writes: %s", lost, may)
	}
}

func (l *loss) String() string {
	text := "nothing may be lost"
	if !l.since.IsZero() {
		text = "what was acknowledged after " + l.since.Format("15:04:05.000") + " may be lost"
	}
	for _, r := range l.said {
		text += fmt.Sprintf("; recover said %+v", r.Missing)
	}
	return text
}

// readState reads an entry with a pending write.
func readState(ctx context.Context, c *caller, e *numbered.Entry) (state, error) {
	code, answer, err := c.do(ctx, http.MethodGet, e.Path(), nil)
	var doc struct{ Value string }
	switch {
	case err != nil:
		return state{}, err
	case code == http.StatusNotFound:
		return state{}, nil
	case code != http.StatusOK:
		return state{}, fmt.Errorf("GET %s, which is pending: %d %.200s", e.Path(), code, answer)
	}
	err = json.Unmarshal(answer, &doc)
	return state{doc.Value, true}, err
}

// get reads a document of the daemon's own.
func get(ctx context.Context, c *caller, path string, doc any) error {
	code, answer, err := c.do(ctx, http.MethodGet, path, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d %.200s", code, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, doc)
	}
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// refuse makes a dead letter of each entry that has none, once nothing is pending.
func (s *soak) refuse(ctx context.Context) error {
	for n := range refusedWrites {
		e := refusedEntry(n)
		if slices.Contains(slices.Collect(maps.Values(s.letters)), e.Namespace) {
			continue
		}
		body, err := json.Marshal(map[string]string{"value": numbered.Value(e.Key, 1, 300)})
		if err != nil {
			return err
		}
		if code, answer, err := s.load.caller.do(ctx, http.MethodPut, e.Path(), body); err != nil || code != http.StatusOK {
			return fmt.Errorf("PUT %s: %d %.200s %w", e.Path(), code, answer, err)
		}
	}
	if err := s.drained(ctx); err != nil {
		return err
	}
	return s.readLetters(ctx, true)
}

// listLetters returns the entries of all dead letters, by their IDs.
func listLetters(ctx context.Context, c *caller) (map[string]api.ListedDeadLetter, error) {
	var doc api.DeadLetters
	err := get(ctx, c, "/_botwired/dead-letters?limit=10000", &doc)
	all := make(map[string]api.ListedDeadLetter)
	for _, l := range doc.DeadLetters {
		all[l.ID] = l
	}
	return all, err
}

// owedLetters expects every dead letter to be there, unless a recovery has said that it is not.
func (s *soak) owedLetters(ctx context.Context, c *caller, may *loss) error {
	all, err := listLetters(ctx, c)
	if err != nil {
		return err
	}
	for id, namespace := range s.letters {
		if _, there := all[id]; there {
			continue
		}
		if !may.names("letter " + id) {
			s.breach("the dead letter %s in %s is lost: %s", id, namespace, may)
		}
		s.harm.lost++
		delete(s.letters, id)
		s.unsettled = true
	}
	s.unsettled = s.unsettled || may.unclear()
	return nil
}

// readLetters expects the dead letters that are known, each with its value, and no other. If anew is set, there may be
// others of refused entries: they are known from then on.
func (s *soak) readLetters(ctx context.Context, anew bool) error {
	all, err := listLetters(ctx, s.load.caller)
	if err != nil {
		return err
	}
	for id, l := range all {
		namespace, known := s.letters[id]
		switch {
		case known && namespace == l.Namespace:
		case l.Key == refusedEntry(0).Key && anew:
			s.letters[id] = l.Namespace
		default:
			s.load.wrong("a dead letter of %s/%s: %s: %s", l.Namespace, l.Key, l.Kind, l.Error)
			continue
		}
		var doc api.DeadLetter
		if err := get(ctx, s.load.caller, "/_botwired/dead-letters/"+id, &doc); err != nil {
			return err
		}
		if doc.Value == nil || *doc.Value != numbered.Value(l.Key, 1, 300) {
			s.load.wrong("the dead letter of %s/%s has another value", l.Namespace, l.Key)
		}
	}
	for id, namespace := range s.letters {
		if _, there := all[id]; !there {
			s.load.wrong("the dead letter %s in %s is lost", id, namespace)
			delete(s.letters, id)
		}
	}
	return nil
}

// looksBack is of how many entries the history is read in a round.
const looksBack = 10

// lookBack expects that the history of an entry has only values that were written.
func (s *soak) lookBack(ctx context.Context, e *numbered.Entry) error {
	var doc api.Revisions
	path := "/_botwired/revisions?" + url.Values{"namespace": {e.Namespace}, "key": {e.Key}}.Encode()
	code, answer, err := s.load.caller.do(ctx, http.MethodGet, path, nil)
	if err != nil || code == http.StatusNotFound { // it is bounded, and damage may have taken it
		return err
	}
	if err := json.Unmarshal(answer, &doc); code != http.StatusOK || err != nil {
		s.load.wrong("GET %s: %d %.200s (%v)", path, code, answer, err)
	}
	for _, r := range doc.Revisions {
		if r.Value == nil {
			continue
		}
		if err := e.Allows(0, *r.Value, true); err != nil {
			s.load.wrong("the history of %s/%s %v", e.Namespace, e.Key, err)
		}
	}
	return nil
}
