// Package faults tests the whole process under faults of the machine: the real binary
// as a child, a real file system that fills up, a disk that fails, signals, a clock
// that jumps. It looks at the daemon only from outside: at its answers, its exit code,
// its stderr, and the entries upstream.
//
// The package has tests only, for Linux and mostly for root, behind the build tag
// faults: `make faults` runs them.
package faults
