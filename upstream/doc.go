// Package upstream defines the [Engine], which speaks to the memory service behind botwired, and what
// its failures mean ([Verdict]). It derives upstream's [Health] from the requests, and has the
// [Reader], which asks for entries and listings that are not known here. Package upstream/limit bounds
// the requests under way, and package upstream/flush sends pending writes.
//
// Package upstream/botwire is an engine for BotWire over HTTP, and package upstream/natskv one for a
// bucket of NATS JetStream. This package knows no protocol, and does not know who reads and writes.
// From the journal it uses entries and sequence numbers only.
//
// # Health
//
// A request that fails as Transient, Unsent or Unanswered says something about upstream. When two
// entries have failed with no success in between, or upstream cannot be reached at all, writes are
// down. Then one task at a time probes, with a backoff of its own (contract 16) and at least every
// probeMax. If other entries then go through, the fault lies with the entries that failed: for a while,
// their failures make no outage. On recovery the number of writes under way starts at one and grows
// with each success.
//
// [Health] has one circuit for reads and one for writes under one lock, and makes one state of both for
// people. It is our own, because failsafe-go's breaker cannot tell an entry's fault from an outage.
package upstream
