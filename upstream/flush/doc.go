// Package flush carries pending writes upstream. It knows nothing of protocols and callers.
//
// # Flushing
//
// Every entry with a pending write has one task, and a task has at most one request in flight
// (contract 12). A task lingers for flush.linger after the entry's last write, but for at most lingerCap
// lingers after its first unsent write. Then it sends the entry's newest state. A namespace sends its
// entries oldest first, by their newest writes, as many at a time as its share of upstream.concurrency
// allows. Requests in flight together may arrive out of order, and so may entries that have failed. A
// namespace with more than oldestOf entries sends the entry first that became due first. Writes to an
// entry do not change its place while others go before it (contract 12). A flush and a drain end every
// linger. A caller that waits for one entry ends its linger; the entry then goes before the others, but
// only every other time.
//
// A namespace may have a quota (package upstream/quota). While it is ample, it changes nothing. When it is
// short, the linger widens and the namespace's entries take turns: the entry whose oldest unsent write has
// waited longest goes first. See [quota.Terms]. Deletes, and entries that a caller waits for, have a
// reserve. A flush and a drain may use all that is left.
//
// The engine's verdict decides what follows:
//
//	Confirmed    the write settles; a newer write starts over
//	Transient    the task retries after its backoff
//	Unsent       the same, and nothing has reached upstream
//	Unanswered   the same, but not before upstream.late_window has passed
//	Throttled    the namespace waits as long as upstream said, regardless of the answers
//	             to other requests in flight
//	Paused       the namespace waits, and one task tries every BackoffMax
//	Permanent    the write becomes a dead letter; if too many do, the namespace is paused
//
// Upstream may carry out an unanswered request until its late window has passed (contract 14). Nothing more of that
// entry is sent before: then its newest state goes, and nothing can land over it. The journal keeps when something
// was last sent, so that the next process waits as well after a crash. A drain does not wait: it sends once more what
// is inside a window, and leaves it to the next process.
//
// # Fences
//
// Before a write overwrites an entry, its fence reads the entry upstream and compares it with the state
// that this host expects upstream to hold (contract 17). If another host has changed the entry, the later
// state wins, by the time when it was written. The times are compared as they stand, unless [fence.Ahead] says
// that the clocks are apart. A [fence.Question] holds the facts, and its Judge decides. A send attempt makes the fence's requests and
// the write's in one slot.
//
// # Versions
//
// With an exact engine ([upstream.Engine.Exact]), a fence is exact, too: it compares the write with the
// entry's last version, and [upstream.Engine.Swap] carries the write out only if that is still the last
// one. Otherwise the write is judged again. A version has the time of its write in the journal, and the
// journal gives a write a time later than all that this host knew. So the later of two versions wins
// everywhere, and the times of an entry grow with its revisions. The last version decides:
//
//   - it is this very write: the write settles;
//   - it is the write's base, or an older write of this host: the write replaces it;
//   - it is another host's, and later: the write becomes a dead letter;
//   - it is another host's, and earlier: it is kept as a dead letter, and the write replaces it.
//
// A delete leaves a version, too. Nothing can land late over a confirmed write, so there is no window.
//
// # Parts
//
// The flusher has three parts under one lock: the schedule, the running attempts and the callers. The
// schedule decides which task is due, with a queue for each namespace. An attempt is one run of a task. It
// makes a sendAttempt, which asks the fence and sends one write. Callers wait in Flush, Drain and Await.
// The quotas have a lock of their own, and say when a namespace may send how much.
//
// A write is flushed as follows. Flusher.take finds a due task, and schedule.start begins its attempt.
// sendAttempt.run waits for a slot, judges the write, has the journal know that it is sent, and proposes it to the
// engine. attempt.conclude decides what the result means, and journals it. It
// returns an ending, which says what becomes of the task, and what was learned about upstream's health and
// the namespace. attempt.end applies the ending: it completes the task, or enqueues it again.
package flush
