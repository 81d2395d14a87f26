// Package flush carries pending writes upstream. It knows nothing of protocols and callers.
//
// # Flushing
//
// The journal tells [Flusher.Changed] of each write, with its own lock held. Package upstream/schedule says which entry is
// due. For each, an attempt sends its newest write: send.go tells that story, from top to bottom. ending.go gives the task
// back to the schedule, with its fate.
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
// # Late windows
//
// Upstream may carry out an unanswered request until its late window has passed (contract 14). Nothing more of that
// entry is sent before: then its newest state goes, and nothing can land over it. The window begins where an attempt ends
// that got no answer, in attempt.end, and the schedule keeps it. A drain does not wait: it sends once more what is inside
// a window, in an attempt that is Early. That judges and settles nothing, and leaves the write to the next process.
//
// For that process, attempt.commits has the disk know before each request until when something may be sent. After a
// crash, Flusher.recall asks the journal for that time, and has the schedule wait.
//
// # Fences
//
// Before a write overwrites an entry, its fence reads the entry upstream and compares it with the state
// that this host expects upstream to hold (contract 17). If another host has changed the entry, the later
// state wins, by the time when it was written. The times are compared as they stand, unless [fence.Ahead] says
// that the clocks are apart. A [fence.Question] holds the facts, and its Judge decides. An attempt makes the fence's requests and
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
//   - it is another host's, and later: the write is kept in the entry's history, as lost;
//   - it is another host's, and earlier: it is kept there, as lost, and the write replaces it.
//
// A delete leaves a version, too. Nothing can land late over a confirmed write, so there is no window.
//
// # Parts
//
// The flusher has a schedule, the running attempts and the callers, under one lock. The schedule calls back in one case:
// something is due sooner than it has said, and wakes Flusher.dispatch. Callers wait in Flush, Drain, Await and Confirm.
// The quotas have a lock of their own, and say when a namespace may send how much.
//
// Flusher.take asks the schedule for an attempt. It runs without the lock, and returns an ending: what becomes of the
// entry's task, and what was learned about the namespace. attempt.end applies that to the schedule, and tells the callers.
package flush
