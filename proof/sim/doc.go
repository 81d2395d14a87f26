// Package sim is a simulation: the real journal, cache, flusher, reader and proxy, in
// virtual time, on a file system in memory that can crash and in front of an upstream
// that can fail in every known way. A seeded adversary draws operations, faults,
// crashes and restarts. After each step the simulation checks the contract's invariants
// against a model, and at the end that both sides converge.
//
// TestLinearVirtual and TestLinearParallel let many callers work on one daemon at once,
// and check the answers for linearizability.
//
// The package has tests only: see TestSimulation. make sim runs it for a chosen time.
package sim
