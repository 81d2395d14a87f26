// Package upstream speaks to the memory service that botwired stands in front of.
//
// It owns the client, what an answer means ([Verdict]), what is believed of
// upstream's health, and the [Flusher] that carries pending writes there. It knows
// of the journal its entries and sequence numbers, and nothing of the callers whose
// writes these are.
//
// # Flushing
//
// Every entry with a pending write has one task, and a task has at most one request
// under way (contract 12). A task waits for flush.linger after the entry's last
// write, but no longer than lingerCap times that after its first, then sends the
// entry's newest state. A namespace with few tasks sends one after the other, as the
// writes were made, so that upstream lists them in that order; one with many uses all
// of upstream.concurrency. What the answer means for the task:
//
//	Confirmed    settled; a newer write begins anew
//	Unwell       again after the task's backoff
//	Unsent       the same, and certain not to have reached upstream
//	Unanswered   in doubt: nothing is sent for upstream.settle_time, see below
//	Limited      the namespace waits, as long as upstream said, whatever requests
//	             that were under way are told after
//	Paused       the namespace waits, one task tries every flush.backoff_max
//	Refused      a dead letter
//
// An unanswered request may still land (contract 14). An entry in doubt is sent
// again, in its newest state, when the settle time has passed. If that is not what
// was in doubt, it is read back, at once and once more a settle time later, and
// stays pending until then: should the older state have landed late, the newest is
// sent again. When the watch is over, that is done once more and no oftener, as what
// is found then is another host's.
//
// # Health
//
// Requests that fail without a verdict on the request itself say something of
// upstream. When two entries have failed with no success in between, or upstream
// cannot be reached at all, writes are down: one task at a time probes, at the pace
// of a backoff of its own (contract 16). Entries that failed when others then went
// through are sick themselves, and for a while their failures make no outage. On
// recovery the number of requests under way starts at one and grows with each
// success. Reads keep an account of their own.
package upstream
