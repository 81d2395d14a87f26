package natskv

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// certainAfter is how long a bucket has to look as if it had lost writes before botwired accepts that.
// A deposed leader still answers for a moment, and a new one shows old writes one after another.
const certainAfter = quorumFor + time.Second

// goneAfter is how long a bucket has to be missing before botwired accepts that it is gone. Starting
// servers may not know it yet.
const goneAfter = 5 * time.Second

// keeper compares the bucket with its mark, and refuses requests to a bucket that has lost confirmed
// writes. Its methods may be called concurrently.
type keeper struct {
	bucket  string
	marks   Marks
	keepFor time.Duration // see Options.TombstonesFor
	log     *slog.Logger

	saving sync.Mutex // held during a Save; taken before mu

	mu        sync.Mutex
	mark      Mark
	saved     Mark
	there     Mark // the bucket at the last comparison
	doubtedAt time.Time
	lost      string
	// connection counts the connections and the accepted buckets. looked says that the bucket was
	// checked, and found to be the same, since connection last changed.
	connection int
	looked     bool
	// interrupted says that, since the last good look, something has happened that comes with the loss of writes:
	// the connection, the leader's answers or the session have broken off. The leader then has to show the mark's
	// message. Until it has, nothing that is seen counts: it may be from a bucket that went back.
	interrupted bool
	high        Mark            // the highest message seen since the last look began
	unproven    bool            // the mark's message is missing, and the bucket was not read since: the mark stays
	failed      *upstream.Error // why the last look failed
	lagged      bool            // the last look found the leader's last revision lower than a known one
	alone       string          // why the bucket cannot be used, if the leader has no majority
	onUsable    func()          // called when requests may be made again; may be nil
	settled     chan struct{}   // closed at each decision, and then replaced
}

// newKeeper loads the mark.
func newKeeper(opts Options) (*keeper, error) {
	mark, err := opts.Marks.Load()
	if err != nil {
		return nil, fmt.Errorf("read what the bucket %s was: %w", opts.Bucket, err)
	}
	return &keeper{
		bucket: opts.Bucket, marks: opts.Marks, keepFor: opts.TombstonesFor, log: opts.Logger, mark: mark, saved: mark,
		interrupted: true, settled: make(chan struct{}),
	}, nil
}

// latest returns the latest write time that an earlier process has seen; 0 if that is far ahead of this
// machine's clock.
func (k *keeper) latest(now time.Time) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := upstream.Micros(k.mark.Latest)
	if at > now.Add(clocksApart).UnixMicro() {
		return 0
	}
	return at
}

// sees notes a message that an answer or a change has shown: the mark without what is common to all messages.
func (k *keeper) sees(m Mark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.interrupted && !k.unproven { // guard 9.85
		k.high.advance(&m)
	}
}

// top returns the mark with the highest message seen.
func (k *keeper) top() Mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.mark
	m.advance(&k.high)
	return m
}

// raise makes the highest message seen the mark's. The next look compares with it.
func (k *keeper) raise() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mark.advance(&k.high) // guard 9.87
}

// interrupt says that something has happened that comes with the loss of writes.
func (k *keeper) interrupt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interrupted = true
}

// witness is the bucket's message at the mark's revision: other writers may have passed the revision in
// a bucket that went back.
type witness int

const (
	notAsked  witness = iota
	isSame            // the bucket holds all that it held at the mark
	isOther           // the bucket went back
	isMissing         // later versions have replaced it, or the bucket went back
)

// toWitness returns the mark whose message the leader has to show, since nothing has proven after an
// interruption that the bucket is the one of the mark. ok is false if there is no such message.
func (k *keeper) toWitness(there *look) (mark Mark, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := !k.mark.At.IsZero() || k.mark.Entry != (journal.ID{})
	return k.mark, k.interrupted && known && there.created.Equal(k.mark.Created) && there.last >= k.mark.Revision
}

// judges returns what the leader's message at the mark's revision says.
func (m *Mark) judges(at time.Time, id journal.ID, written float64) witness {
	if !m.At.IsZero() && at.Equal(m.At) || m.At.IsZero() && id == m.Entry && upstream.Micros(written) == upstream.Micros(m.Written) {
		return isSame
	}
	return isOther
}

// denied reports whether the bucket, read whole, has an earlier version of the entry of the mark's message than
// that message, or no trace of it, although the message is missing as if a later version had replaced it.
func (k *keeper) denied(last func(journal.ID) upstream.Version) bool {
	k.mu.Lock()
	mark, unproven := k.mark, k.unproven
	k.mu.Unlock()
	if !unproven || mark.Entry == (journal.ID{}) {
		return false
	}
	v := last(mark.Entry)
	if v.Revision == 0 { // the tombstone of a delete may have been removed meanwhile
		return k.keepFor == 0 || float64(time.Now().Unix())-mark.Written < k.keepFor.Seconds()
	}
	return upstream.Micros(v.WrittenAt) < upstream.Micros(mark.Written) // guard 9.86
}

// read records that the bucket was read whole, and whether it has shown an earlier version of an entry
// than before.
func (k *keeper) read(wentBack bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if wentBack {
		k.mark.WentBack, k.looked, k.interrupted = true, false, true
	} else if k.unproven {
		k.mark.Entry, k.mark.Written = journal.ID{}, 0
	}
	k.unproven = wentBack
}

// judge compares the leader's answer with the mark. It returns false if the bucket cannot be the one of
// the mark, or if the answer came over an earlier connection.
func (k *keeper) judge(there Mark, of witness, connection int, now time.Time) bool {
	refused := k.refuses() != nil
	same, say := k.compare(there, of, now)
	if say != nil {
		say()
	}
	k.save()
	if !same {
		return false
	}
	usable := func() {}
	k.mu.Lock()
	defer func() {
		k.mu.Unlock()
		usable()
	}()
	if connection != k.connection {
		return false
	}
	k.looked, k.interrupted, k.failed, k.alone = true, false, nil, ""
	k.wake()
	if refused && k.onUsable != nil {
		usable = k.onUsable // guard 16.61
	}
	return true
}

// lacksMajority records that the leader has heard from no majority of the bucket's servers, and can confirm nothing.
func (k *keeper) lacksMajority(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.alone, k.interrupted = why, true
}

// lags reports whether the leader's last revision is, for the first time, lower than one that was seen
// before the request: a server may show a write before the leader has applied it. If that happens twice
// in a row, the bucket has lost the write: lags adds the revision to the mark, and judge detects the
// loss.
func (k *keeper) lags(there Mark, seen uint64, connection int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !there.Created.Equal(k.mark.Created), there.Revision >= seen, connection != k.connection:
		k.lagged = false
		return false
	case !k.lagged:
		k.lagged = true
		return true
	}
	if k.mark.Revision < seen {
		k.mark.Revision, k.mark.At, k.mark.Entry = seen, time.Time{}, journal.ID{}
	}
	return false
}

// fails records why the bucket could not be checked, or that its settings are unacceptable.
func (k *keeper) fails(why *upstream.Error, unfit bool, connection int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if connection == k.connection {
		k.failed, k.looked = why, k.looked && !unfit
		k.wake()
	}
}

// compare compares the bucket with the mark. say logs the change; nil if there is none.
func (k *keeper) compare(there Mark, of witness, now time.Time) (same bool, say func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.there = there
	why := k.differs(there, of)
	if why == "" {
		if k.lost != "" {
			say = func() {
				k.log.Info("the bucket is the one that it was again: botwired asks it again", "bucket", k.bucket)
			}
		}
		k.lost, k.doubtedAt = "", time.Time{}
		k.mark.Created, k.mark.WentBack = there.Created, false
		k.unproven = k.unproven && of != isSame || of == isMissing
		if !k.unproven && (k.mark.Revision < there.Revision || k.mark.Revision == there.Revision && k.mark.At.IsZero()) { // guard 9.70
			k.mark.advance(&there)
		}
		k.mark.Latest = max(k.mark.Latest, there.Latest)
		return true, say
	}
	k.looked, k.interrupted, k.high = false, true, Mark{}
	switch {
	case k.lost != "":
	case k.doubtedAt.IsZero():
		k.doubtedAt = now
		k.wake()
	case now.Sub(k.doubtedAt) < certainAfter, there.Created.IsZero() && now.Sub(k.doubtedAt) < goneAfter:
	default:
		k.lost = "the bucket " + k.bucket + why + ": upstream has lost writes that it had confirmed. botwired has stopped asking it." +
			" `botwired restore --all` brings back what this host has a copy of"
		k.wake()
		say = func() {
			k.log.Error("the bucket has lost writes that it had confirmed: botwired stops asking it",
				"why", "the bucket "+k.bucket+why)
		}
	}
	return false, say
}

// differs returns why the bucket cannot be the one of the mark; "" if it can. The caller holds mu.
func (k *keeper) differs(there Mark, of witness) string {
	switch {
	case k.mark.Created.IsZero():
	case there.Created.IsZero():
		return " is gone"
	case !there.Created.Equal(k.mark.Created):
		return " is not the one that it was: it was made anew at " + there.Created.Local().Format(time.DateTime)
	case there.Revision < k.mark.Revision:
		return fmt.Sprintf(" is not the one that it was: its last revision went back from %d to %d", k.mark.Revision, there.Revision)
	case of == isOther: // guard 9.68
		return fmt.Sprintf(" is not the one that it was: it holds another message at revision %d, so it went back and was written since", k.mark.Revision)
	case k.mark.WentBack && of != isSame: // guard 9.69
		return " is not the one that it was: it went back to earlier versions of entries, and was written since"
	}
	return ""
}

// save makes the mark durable: the first one before any request, and later ones after each comparison.
func (k *keeper) save() {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.mu.Lock()
	mark, saved := k.mark, k.saved
	k.mu.Unlock()
	if mark == saved {
		return
	}
	if err := k.marks.Save(mark); err != nil {
		k.log.Error("what the bucket was cannot be saved: if it loses writes, botwired may not notice", "error", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.saved = mark
}

// wake ends the waits in [watch.admit]. The caller holds mu.
func (k *keeper) wake() {
	close(k.settled)
	k.settled = make(chan struct{})
}

// disconnected records that the bucket has to be checked again.
func (k *keeper) disconnected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.connection++
	k.looked, k.interrupted, k.lagged, k.failed, k.alone = false, true, false, nil, ""
}

func (k *keeper) current() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.connection
}

// knew reports whether the bucket existed before.
func (k *keeper) knew() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.mark.Created.IsZero()
}

// refuses returns why no request may be made; nil if requests may be made.
func (k *keeper) refuses() *upstream.Error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.lost != "":
		return &upstream.Error{Verdict: upstream.Paused, Answered: true, Reason: k.lost}
	case !k.doubtedAt.IsZero():
		return &upstream.Error{Verdict: upstream.Unsent, Reason: "the bucket " + k.bucket + " looks as if it had lost writes: it is looked at again in a moment"}
	case k.alone != "":
		return &upstream.Error{Verdict: upstream.Unsent, Unreachable: true, Reason: k.alone}
	case !k.looked && k.failed != nil:
		return k.failed
	case !k.looked:
		return &upstream.Error{Verdict: upstream.Unsent, Unreachable: true, Reason: "the bucket " + k.bucket + " has not been looked at since the connection was made"}
	}
	return nil
}

// unusable returns why the servers let botwired use no bucket; "" if they may.
func (k *keeper) unusable() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost != "" || k.looked || k.failed == nil || !k.failed.Answered {
		return ""
	}
	return k.failed.Reason
}

// accept makes the present bucket the mark. It returns false and changes nothing if the bucket is not
// refused.
func (k *keeper) accept() (bool, error) {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.mu.Lock()
	there, lost := k.there, k.lost
	there.Accepted = k.mark.Accepted + 1
	k.mu.Unlock()
	if lost == "" {
		return false, nil
	}
	if err := k.marks.Save(there); err != nil {
		return false, fmt.Errorf("save what the bucket %s is now: %w", k.bucket, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mark, k.saved, k.lost, k.doubtedAt = there, there, "", time.Time{}
	k.connection++ // an answer in flight was meant for the other bucket
	k.high, k.interrupted, k.lagged, k.unproven, k.failed, k.alone = Mark{}, true, false, false, nil, ""
	return true, nil
}

// lostWhy returns why the bucket is refused for lost writes; "" if it is not.
func (k *keeper) lostWhy() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// deciding returns a channel that is closed at the next decision about the bucket, or nil if requests
// need not wait for one. If they must wait, failed reports whether the last look failed.
func (k *keeper) deciding() (next <-chan struct{}, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looked || k.lost != "" || !k.doubtedAt.IsZero() {
		return nil, false
	}
	return k.settled, k.failed != nil
}
