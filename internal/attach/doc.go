// Package attach finds the daemon of a configuration, or starts one beside a program that needs it.
//
// [Connect] returns a client whose errors are for a person at a shell. [Run] runs a command beside a
// daemon, and [Link] carries HTTP requests to one. Both start a daemon if there is none, which ends
// after the last program that uses it: see [UntilUnused].
package attach
