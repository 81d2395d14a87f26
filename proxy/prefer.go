package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/journal"
)

// maxPreferredWait bounds how long a write can wait for upstream before it is
// answered: a caller's preference is not to hold a connection for ever.
const maxPreferredWait = time.Minute

// preferredWait is how long the caller prefers to wait for upstream (RFC 7240, section
// 4.3), at most maxPreferredWait; ok is false if it prefers nothing. Of repeated
// preferences the first counts, and one that makes no sense is none.
func preferredWait(h http.Header) (wait time.Duration, ok bool) {
	for _, line := range h["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0, false
			}
			return time.Duration(min(n, uint64(maxPreferredWait/time.Second))) * time.Second, true
		}
	}
	return 0, false
}

// tellWait says for how long the daemon is ready to wait.
func tellWait(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
}

// outcome waits for upstream to confirm or refuse a write, and says in the answer's header
// for how long it was ready to. It returns what has become of the write by then.
func (m *memory) outcome(w http.ResponseWriter, r *http.Request, written journal.Write, wait time.Duration) string {
	tellWait(w, wait)
	if wait == 0 {
		return "pending"
	}
	// The write is acknowledged whatever comes of the wait. If the deadline cannot be
	// moved, the answer may be lost, as any can.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + answerTime))
	ctx, cancel := m.tasks.patience(r.Context(), wait)
	defer cancel()
	if m.flusher.Await(ctx, written.ID, written.Seq) {
		return "settled"
	}
	switch kind, dead, err := m.journal.IsDead(written.ID, written.Seq); {
	case err != nil || !dead:
		return "pending" // also when nobody knows: the caller can ask again
	case kind == journal.Superseded:
		return "superseded"
	}
	return "dead"
}
