// Package schedule decides which entry with a pending write is sent upstream, and when. It is pure data: it makes
// no requests, keeps nothing on a disk, reads no clock, and holds no locks. Package upstream/flush tells it what
// happens, and does what it says.
//
// # Order
//
// Every entry with a pending write has one task, and a task has at most one attempt at a time (contract 12). A task
// lingers for flush.linger after the entry's last write, but for at most lingerCap lingers after its first unsent
// write. Then the entry's newest state is due. A namespace sends its entries oldest first, by their newest writes, as many
// at a time as its share of upstream.concurrency allows. Requests in flight together may arrive out of order, and so may
// entries that have failed. A namespace with more than oldestOf entries sends the entry first that became due first.
// Writes to an entry do not change its place while others go before it (contract 12). A flush and a drain end every
// linger. A caller that waits for one entry ends its linger; the entry then goes before the others, but only every
// other time.
//
// A namespace may have a quota (package upstream/quota). While it is ample, it changes nothing. When it is
// short, the linger widens and the namespace's entries take turns: the entry whose oldest unsent write has
// waited longest goes first. See [quota.Terms]. Deletes, and entries that a caller waits for, have a
// reserve. A flush and a drain may use all that is left.
//
// # Waits
//
// After a failure, a task waits for its backoff, for its namespace, or for room on the disk: an [Ending] names its [Fate].
// A request that hangs is a sign that the next one may hang: a namespace tries one such entry at a time, and more as
// they are answered. Namespaces share the slots so that none holds up another (contract 16).
//
// # Late windows
//
// If upstream has not answered a request, it may land until [Ending].WindowEnd. That belongs to the entry and not to the
// write: it outlasts each fate of the task, and a task without a write waits for it, too. Nothing of the entry is sent
// before (contract 14), and nobody ends that wait. A schedule after a start may be inside the window of an earlier
// process: [Schedule.SendNothingBefore] holds for all entries.
//
// Only a process that is about to end sends something inside a window: [Schedule.SendOnceMore] makes such tasks due, and
// their attempts are Early. Whatever comes of one, its task is left to the next start.
package schedule
