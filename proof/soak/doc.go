// Command soak lives with the daemon for a while: callers of every kind, an upstream that
// fails in every way, a disk that others fill, shortages of inodes and descriptors, and kills.
//
//	make soak SOAK_FOR=1h
//
// The time goes by in rounds. In a round, writers, readers and listers work on the
// daemon while its surroundings change every second or two. Then everything heals, the
// daemon carries upstream what it holds, and the command compares: each answer of the
// daemon with what a model of its keys says may be true, and every entry upstream with
// what the daemon answers.
//
// In the first half of the rounds, the command kills or stops the daemon at random moments. In the
// second half one process lives through all of them: its memory, descriptors and
// goroutines at the end of its last round must be about those at the end of its first.
//
// Nobody else writes to upstream. A dead letter is wrong, and so is a write that has lost against another host's.
//
// Callers name their writes, and repeat them until they are answered: a write that is made twice is wrong. The
// daemon's token changes: a stream that goes on with the old one is wrong.
//
// With -sealed, the daemon seals all namespaces: upstream must then hold sealed values only, and nothing plain
// may reach its socket.
//
// The command ends with 1 if anything was lost, came back or was misread, or if a figure
// has grown. With -seed, its surroundings change as they did in another run; the callers'
// timing remains the machine's.
package main
