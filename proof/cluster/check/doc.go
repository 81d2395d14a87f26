// Package check judges what several daemons over one bucket have answered, and what they and the bucket
// hold in the end. It knows no server, no daemon and no network: a [History] goes in, and [Check] returns
// each [Fault].
//
// The rule: of all writes to an entry, the one with the latest time is the final state, everywhere. Each
// acknowledged write is that state, or another write has taken its place, and then a receipt, the
// bucket's history or a daemon's says so. No reader has seen time go backwards.
package check
