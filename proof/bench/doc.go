// Command bench measures botwired beside other servers.
//
// Without an argument it puts the same load, in one run, on
//
//   - botwired: the program itself, on the disk, in front of the memory service,
//   - page: the same while a page follows its events and asks for what it shows,
//   - redis: in memory for reads, with appendfsync always for writes,
//   - nginx: a cache in front of the memory service, for reads,
//   - bare: an HTTP server of Go's that answers as many bytes and does nothing else,
//   - echo: a server of one thread that answers each read over TCP with as many bytes, the least that an
//     answer can cost; if it is not faster than all others, the generator of the load is their limit,
//   - upstream: the memory service itself ("botwired selfhost"), 50 ms away, with its
//     data in memory, as it would use another machine's disk and not this one's,
//
// each a process of its own. While bench measures writes, the daemon flushes to a sink
// as far away, which only confirms them: this machine does not do the work of another.
//
// The load is a closed loop first: each connection waits for its answer before it makes the next request. Then it
// is an open one, whose requests are due at fixed times: see package load. The CPU time of a request is that of all
// processes of the server. For the daemon it includes the writes that reach the sink meanwhile: at high rates
// few of them, as the sink is far away.
//
// bench goes round by round, and measures all cells once in each. It measures the cells
// to compare right after each other, in another order each time, so that a disturbance
// of the machine hits all of them alike. A figure is the median of the rounds; a ratio is
// the median of the ratios within the rounds.
//
// bench checks every answer and its source: a GET that should be a hit and went upstream
// fails the run, and so does a refused write. Servers for writes start empty in every
// cell. The goals stand at the end of the report. A missed goal makes the exit code 1
// only with -strict.
//
// With "-env BOTWIRED_SEAL_KEY_FILE=KEYS" and "-env BOTWIRED_NAMESPACES=JSON", the daemons seal what they send.
//
// "bench conversation" has an agent hold a conversation directly and through botwired: see
// conversation.go. "bench histories" does so with each adapter of the Python package: see
// histories.go. "bench bare" and "bench sink" are servers that the program starts for itself.
//
// Tried for a GET hit and a durable PUT, without use or at a cost elsewhere: runtime.Gosched before a read, system
// calls that Go's scheduler does not hear of, GOGC=400, GOMAXPROCS=1 (half the tail of a GET, and durable writes
// several times slower), shorter time slices (sched_setattr), profile-guided optimisation, O_DSYNC, memtables of
// 32 MB.
package main
