// Package faults tests the whole process under faults of the machine: the real binary
// as a child, a real file system that fills up, a disk that fails, signals, a clock
// that jumps. It looks at the daemon from outside only: its answers, its exit code,
// its stderr, and what upstream was left with.
//
// It has tests only, for Linux and mostly for root, behind the build tag faults:
// `make faults` runs them.
package faults
