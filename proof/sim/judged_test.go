package sim

import (
	"fmt"
	"slices"

	"github.com/botwired/botwired/journal"
)

// judged is what the service remembers to judge its client by. The service's lock guards it.
type judged struct {
	confirmed map[journal.ID]state          // the last write that was answered
	foreign   map[journal.ID]bool           // another host's write is to stay
	refused   map[journal.ID]map[state]bool // the writes that BotWire itself refused
}

func newJudged() judged {
	return judged{make(map[journal.ID]state), make(map[journal.ID]bool), make(map[journal.ID]map[state]bool)}
}

// write takes in a write of the client's that is carried out, and returns a violation. Once
// the newest write was confirmed, another host's write after it stays: the client has no
// reason to send anything, unless an older request of its own has landed since.
func (j judged) write(id journal.ID, s state, answered bool) (violation string) {
	if j.foreign[id] && answered {
		violation = fmt.Sprintf("contract 14: %s of %s overwrites what another host wrote", s, id)
	}
	delete(j.foreign, id)
	delete(j.confirmed, id)
	if answered {
		j.confirmed[id] = s
	}
	return violation
}

// refuse takes in that BotWire refused a write.
func (j judged) refuse(id journal.ID, s state) {
	if j.refused[id] == nil {
		j.refused[id] = make(map[state]bool)
	}
	j.refused[id][s] = true
}

// foreign has another host write to an entry. newest is what the daemon's callers wrote
// last, and rests says that the daemon has nothing to send.
func (s *service) foreign(id journal.ID, value string, newest state, rests bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(id, value, s.veil.seal(id, value), away)
	s.note("another host: PUT %s %s", id, value)
	confirmed, ok := s.judged.confirmed[id]
	s.judged.foreign[id] = rests && ok && confirmed == newest
}

// excuse takes back that other hosts' writes are to stay: of one entry that is written
// anew, or of all when the daemon restarts and forgets what it knew.
func (s *service) excuse(ids ...journal.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.judged.foreign, id)
	}
}

// wasRefused reports whether BotWire itself refused a write.
func (s *service) wasRefused(id journal.ID, what state) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judged.refused[id][what]
}

// burials takes in the dead letters, and what is lost, that have come since it looked last. A dead letter must be of a
// write that BotWire itself refused. After a refusal nothing of its entry is certain: upstream may hold any state from before.
func (w *world) burials() string {
	letters, err := w.node.journal.DeadLetters(0, 1000) // an older write may die after a newer one
	if err != nil {
		return "dead letters: " + err.Error()
	}
	for _, l := range letters {
		if w.dead[l.Seq] {
			continue
		}
		w.dead[l.Seq] = true
		what, ok := w.acknowledged[l.Seq]
		if ok && !w.up.wasRefused(l.ID, what) {
			return fmt.Sprintf("contract 15: write %d to %s (%s) is a dead letter, and BotWire has not refused it", l.Seq, l.ID, what)
		}
		w.beliefs[l.ID].bury()
	}
	all, err := w.node.journal.History.Lost("", 0, 1000)
	if err != nil {
		return "lost: " + err.Error()
	}
	for _, listed := range slices.Backward(all) {
		if w.dead[listed.Seq] {
			continue
		}
		w.dead[listed.Seq] = true
		lost, err := w.node.lost(listed.ID)
		if err != nil {
			return "lost: " + err.Error()
		}
		at := slices.IndexFunc(lost, func(l loser) bool { return l.Seq == listed.Seq })
		if at < 0 {
			return fmt.Sprintf("contract 17: version %d of %s is lost, and is not in the history", listed.Seq, listed.ID)
		}
		if violation := w.lost(&lost[at]); violation != "" {
			return violation
		}
	}
	return ""
}

// evicted reports whether the daemon may have dropped a state for want of room, which callers had got.
func (w *world) evicted(id journal.ID, value string) bool {
	return w.squeezed && slices.Contains(w.beliefs[id].shown, value)
}

// lost takes in a write that has lost against another host's, or the other way round: each of the
// two states is what it is said to be.
func (w *world) lost(l *loser) string {
	theirs := state{l.Op == journal.Put, l.Value}
	if !l.Shown {
		theirs = state{l.winner != "", l.winner}
		if !l.known {
			w.beliefs[l.ID].bury()
			return ""
		}
	}
	b := w.beliefs[l.ID]
	// This host's own state may have no copy, and no history either.
	evicted := w.squeezed && l.Shown || w.setBack && (w.squeezed || b.burials > 0)
	if slices.Contains(b.history, theirs) && (evicted || l.Shown && len(b.theirs) > 0) {
		if !l.Shown {
			b.bury()
		}
		return ""
	}
	if !slices.Contains(b.theirs, theirs) {
		return fmt.Sprintf("contract 17: %s of %s is no other host's", theirs, l.ID)
	}
	if !l.Shown && !slices.Contains(b.foreign, theirs) {
		return fmt.Sprintf("contract 17: %s of %s has won over a later write", theirs, l.ID)
	}
	return ""
}
