package flush_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// contract 14, 17: an unanswered request may still replace the version that it was made over. So a
// newer write replaces that version itself, even if the version has the same content and a later time.
func TestALateRequestOverAVersionThatSaysTheSame(t *testing.T) {
	put, del := journal.Put, journal.Delete
	for _, op := range []journal.Op{put, del} {
		t.Run(op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVersioned(t, &seat{bucket: newBucket(t), host: "a"}, vfs.NewMem())
				id := key("k")
				v.seat.foreign(id, put, "base", time.Now().Add(-time.Hour))
				theirs := v.seat.foreign(id, op, valueOf(op, "same"), time.Now().Add(time.Minute)) // the other host's clock is ahead
				if _, err := v.journal.Fill(id, theirs.Observation(), func() bool { return true }); err != nil {
					t.Fatal(err)
				}
				var unanswered upstream.Proposal
				v.seat.set(func(b *bucket) {
					b.mishap = func(_ string, p upstream.Proposal) mishap {
						if p.Over.Revision != theirs.Revision {
							return fine // a conflict
						}
						unanswered, b.mishap = p, nil
						return vanished
					}
				})
				v.put(id, "older")
				time.Sleep(time.Second)
				v.append(journal.NewWrite{ID: id, Op: op, Value: valueOf(op, "same"), ListBytes: 4, Fenced: true})
				v.seat.set(func(*bucket) { v.seat.blind = op == put }) // the watch restarts
				v.settleWithin(timeout + 5*time.Second)
				v.seat.set(func(b *bucket) { b.carryOut(unanswered) })
				v.wantNow(id, valueOf(op, "same"), op == del)
			})
		})
	}
}

// contract 17: another host's state is kept before a write is sent over it, also if that request is lost and the
// write then loses to a third one.
func TestAWriteThatHasWonAndIsLost(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		v.settledPut(key("k"), "base")
		time.Sleep(time.Minute)
		v.seat.set(func(b *bucket) {
			b.mishap = func(string, upstream.Proposal) mishap { b.mishap = nil; return vanished }
		})
		v.put(key("k"), "local")
		v.seat.foreign(key("k"), journal.Put, "earlier", time.Now().Add(-time.Second))
		time.Sleep(time.Second)
		v.seat.foreign(key("k"), journal.Put, "later", time.Now().Add(time.Second))
		v.settleWithin(time.Minute)
		v.wantNow(key("k"), "later", false)
		v.wantLetters(letter{"lost", true, journal.Put, "earlier"}, letter{"lost", false, journal.Put, "local"})
	})
}
