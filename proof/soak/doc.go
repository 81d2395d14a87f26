// Command soak lives with the daemon for a while: callers of every kind, an upstream that
// fails in every way, a disk that others fill and that changes data, shortages of inodes and descriptors, and kills.
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
// In the first half, the disk also damages the journal: a bit of a table or a log flips, or a sector of one reads as
// zeros, while the daemon runs and while none does. Contract 4 says what may follow. The daemon may end once it meets the
// damage. The next start mends the journal, or is refused: then the command does as its line says, and runs botwired
// recover. Before callers come back, a daemon without upstream shows what it holds. Each acknowledged write must be
// upstream or pending there, and each dead letter must be there, except for two losses. A recovery may lose what it names,
// or what it says is unknown. If the end of the last log was damaged, what was acknowledged in the second before a kill
// may be missing without a word. Each round ends with a journal that is sound again.
//
// Where such an answer is wrong, the journal as the start has found it stays in a directory that the command names.
//
// Nobody else writes to upstream, which refuses some writes of the beginning for good. Any other dead letter is wrong, and
// so is a write that has lost against another host's. (Once the journal was made anew, a write of the daemon's own that is
// upstream passes for another host's, until somebody has read it.)
//
// Callers name their writes, and repeat them until they are answered: a write that is made twice is wrong. The
// daemon's token changes: a stream that goes on with the old one is wrong.
//
// With -sealed, the daemon seals all namespaces: upstream must then hold sealed values only, and nothing plain
// may reach its socket.
//
// The command ends with 1 if anything was lost, came back or was misread, if a figure
// has grown, or if many damages have not led to every outcome. With -seed, its surroundings change as they did in
// another run; the callers' timing remains the machine's.
package main
