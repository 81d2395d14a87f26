// Command bench measures botwired, and says next to what.
//
// Without an argument it puts the same load, in one run, on
//
//   - botwired: the program itself, on the disk, in front of the memory service,
//   - bare: an HTTP server of Go's that answers as many bytes and does nothing else,
//   - redis: in memory for reads, with appendfsync always for writes,
//   - upstream: the memory service itself ("botwired selfhost"), 50 ms away, with its
//     data in memory, as another machine's disk is not this one's,
//
// each a process of its own. What a daemon flushes while its writes are measured goes to
// a sink as far away, which only confirms: the work of another machine is not done on
// this one. It goes round by round: in each all cells are measured
// once, those to be compared one right after the other and in another order each
// time, so that what disturbs the machine disturbs all of them alike. A figure is the
// median of the rounds; a ratio is the median of the ratios within the rounds.
//
// Every answer is checked, and so is where it came from: a GET that is to be a hit and
// went upstream fails the run, as one refused write does. Servers that are written to
// start empty in every cell. What the run has to show is listed at its end; that a
// figure falls short ends the program with 1 only when -strict is given.
//
// "bench growth" measures how one daemon fares with ever more entries: see growth.go.
// "bench bare" and "bench sink" are servers that the program starts for itself.
package main
