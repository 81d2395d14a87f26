// Package sim is a simulation: the real journal, cache, flusher, reader and proxy, on
// a file system in memory that can crash and in front of an upstream that can fail in
// every way that is known, in virtual time. A seeded adversary draws operations,
// faults, crashes and restarts; after each step the contract's invariants are checked
// against a model, and at the end that both sides converge.
//
// Beside it, TestLinearVirtual and TestLinearParallel let callers loose on the same
// daemon all at once, and have what they were answered checked for linearizability.
//
// It has tests only: see TestSimulation. make sim runs it for a chosen time.
package sim
