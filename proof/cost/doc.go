// Command cost counts what a request costs the daemon, and fails where it costs more than the table of
// docs/performance.md allows: objects and bytes that the daemon allocates, and system calls that it makes, for
// each request of a kind, on 1 connection and on 64. Counts are the same on a slow and on a busy machine, so
// the CI can hold each change against them, which it cannot do with times.
//
// It measures the real daemon as its users run it, a child process, from outside. The daemon has one file more,
// by which it says what it has allocated. strace counts the system calls. Each is counted over some thousand requests
// on connections that are open already, when the daemon does nothing else: nothing is pending in a daemon whose upstream
// answers, and writes go to a daemon whose upstream refuses connections. The daemon's work by the clock
// meanwhile counts, too; it is little.
//
// Some counts depend on nothing but the code: allocations, reads, writes. Others depend on who runs first as
// well: how many writes share an fsync, and how often a thread sleeps. The bounds of the first kind are close.
// With -update the command writes the bounds from what it has measured: `make cost COST='-update -runs 20'`.
package main
