// Package day lives a day of many agents in virtual time: once with all of their requests sent to the
// memory service itself, and once through a whole daemon, with its journal on the real disk. It counts
// what both cost, and checks that the daemon loses nothing, answers each read with the agent's last
// write, and keeps to the quota.
//
// The package has tests only: see TestDay. make day lives a day of 1,000 agents, and writes its table
// into README.md and docs/performance.md.
package day
