// Package upstream says what an [Engine] is, which speaks to the memory service behind botwired, and
// what its failures mean ([Verdict]). It keeps upstream's [Health], as requests show it, and has the
// [Reader], which asks for entries and listings that are not known here. Package upstream/limit bounds
// the requests under way, and package upstream/flush carries pending writes.
//
// Package upstream/botwire is an engine for BotWire over HTTP, and package upstream/natskv one for a
// bucket of NATS JetStream. This package knows no protocol and none of the callers who write and read.
// Of the journal it knows entries and sequence numbers.
//
// # Health
//
// A request that fails as Transient, Unsent or Unanswered says something of upstream. When
// two entries have failed with no success in between, or upstream cannot be reached at all,
// writes are down: one task at a time probes, at the pace of a backoff of its own (contract
// 16), and at least every probeMax. If other entries then go through, those that failed are
// sick themselves: for a while, their failures make no outage. On recovery the number of
// writes under way starts at one and grows with each success.
//
// [Health] has a circuit each for reads and for writes under one lock, and makes one state of both for
// people. It is our own, as failsafe-go's breaker cannot tell a sick entry from an outage.
package upstream
