// Package bootclock reads the clock that counts since the machine has booted. Nobody sets that clock, it goes on while
// the machine is suspended, and processes share it. Its functions may be called concurrently.
package bootclock
