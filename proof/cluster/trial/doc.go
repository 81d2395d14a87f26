// Command trial lives with several daemons over a cluster of three NATS servers: callers on each daemon read,
// write, delete and list, while servers are killed, parted and lose their disks. Then everything heals, the
// daemons flush, and the command checks with package check: no acknowledged write is lost, the latest write
// is the final state everywhere, each loser can be listed, and no read went backwards. At last the servers get older
// files back while a daemon is away and a new one writes, and a namespace is purged past all daemons.
//
//	make cluster                           one of each fault, in about two minutes
//	make cluster FOR=10m HOSTS=8           the stream's leader is killed each minute
//	make cluster PARTITION=5m HOSTS=6      one cut through the servers and the daemons, for that long
//	make cluster UP=1                      only three servers, for as long as you like
//
// Each server is this program, started again. The program ends with 1 if anything is wrong, and keeps its
// directory then.
package main
