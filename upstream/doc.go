// Package upstream defines the [Engine], which talks to the memory service behind botwired, and what
// its failures mean ([Verdict]). It derives upstream's [Health] from the requests. Its [Reader] asks
// for entries and listings that are not known here. Package upstream/limit bounds the requests in
// flight, and package upstream/flush sends pending writes.
//
// Package upstream/botwire is an engine for BotWire over HTTP, and package upstream/natskv one for a
// bucket of NATS JetStream. This package knows no protocol, and does not know who reads and writes.
// From the journal it uses only types that describe entries: ID, Op, Content, Observation and Row.
//
// # Health
//
// A request that fails as Transient, Unsent or Unanswered says something about upstream. When two
// entries have failed with no success in between, or upstream cannot be reached at all, writes are
// down. Then one task at a time probes, with its own backoff (contract 16) and at least every
// flush.probeMax. If other entries then succeed, the entries that failed are at fault: for a while,
// their failures cause no outage. On recovery the number of writes in flight starts at one and grows
// with each success.
//
// [Health] has one circuit for reads and one for writes under one lock, and combines them into one
// state for people. It is our own, because failsafe-go's breaker cannot tell an entry's fault from an
// outage.
package upstream
