// Package flush carries pending writes upstream. It owns the [Flusher] and writes through, and knows
// nothing of protocols and callers.
//
// # Flushing
//
// Every entry with a pending write has one task, and a task has at most one request under
// way (contract 12). A task waits for flush.linger after the entry's last write. However
// often the entry is written, it waits no longer than lingerCap times that after the first
// write that was not sent. Then it sends the entry's newest state. The entries of
// a namespace go oldest first, by their newest writes, as many at a time as its part of
// upstream.concurrency holds: those that are under way together may arrive out of order, and so may
// those that have failed. Of more than oldestOf entries the one goes first that became due first. What
// is written while others go before an entry does not change its place (contract 12). A flush and a
// drain end every linger. A caller that waits for one entry ends its linger, and has it go before the
// others, but only every other time.
//
// A namespace may have a quota (package upstream/quota). While it is ample, it changes nothing. When it is
// short, the linger widens and the namespace's entries take turns, the one first whose
// oldest unsent write has waited longest: [quota.Terms] says when. Deletes, and entries for which a
// caller waits, have a reserve. A flush and a drain may use all that is left.
//
// The engine's verdict decides what follows:
//
//	Confirmed    the write settles; a newer write begins anew
//	Transient    the task tries again after its backoff
//	Unsent       the same, and it is certain that nothing reached upstream
//	Unanswered   the same, and the entry is in doubt for upstream.late_window
//	Throttled    the namespace waits as long as upstream said, whatever the answers to
//	             requests that were under way
//	Paused       the namespace waits, and one task tries every BackoffMax
//	Permanent    the write becomes a dead letter; if too many do, the namespace is paused
//
// An unanswered request may still be carried out until its late window has passed (contract
// 14). The entry's newest state is sent as soon as upstream answers again. If it is not the
// state in doubt, the write stays pending once upstream has confirmed it, and is read back
// when the last window has passed. If upstream then holds the state of one of the
// unanswered requests, that request has landed late, and the newest state is sent again:
// nothing can land over it any more. Any other state is another host's, and stays. The journal's
// sent marks say which states the unanswered requests of an earlier process leave.
//
// # Fences
//
// Before a write overwrites an entry, its fence reads the entry upstream and compares it with
// what this host believes upstream to hold (contract 17). If another host has changed the entry,
// the later state wins, by the time when it was written. [fence.Offset] estimates how far the clocks
// are apart. A question holds all by which a fence decides, and its judge decides. A send attempt makes
// the fence's requests and the write's in one slot, for a pending write and for a write through.
//
// # Versions
//
// An engine may be exact ([upstream.Engine.Exact]), and so is a fence then: it compares the write with
// the entry's last version, and [upstream.Engine.Swap] carries the write out only if that is still the
// last one. Else the write is judged again. A version's time is that of its write in the journal, and
// the journal gives a write a time later than all that this host knew. So of two versions the later one
// wins everywhere, and the times of an entry grow with its revisions:
//
//   - the version is this very write: it settles;
//   - it is what the write was made on, or an older write of this host's: the write takes its place;
//   - it is another host's, and later: the write is a dead letter;
//   - it is another host's, and earlier: it is kept as a dead letter, and the write takes its place.
//
// A delete leaves a version, too. Nothing can land late over a confirmed write: so there is no doubt,
// and nothing is read back.
//
// # Parts
//
// The flusher is three things under one lock. A schedule decides which task is due, in
// queues of one namespace each. The quotas, with a lock of their own, say what a namespace
// may send when. An attempt is one run of a task: it makes the request and decides what the
// verdict means for the task, the namespace and the health. Callers wait in Flush, Drain and
// Await.
package flush
