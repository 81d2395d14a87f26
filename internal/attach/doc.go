// Package attach finds a configuration's daemon, or starts one beside a program that needs it.
//
// [Connect] returns a client whose errors are written for users of a shell. [Run] runs a command beside
// a daemon, and [Link] forwards HTTP requests to one. Both start a daemon if there is none. Such a
// daemon ends after the last program that uses it: see [UntilUnused].
package attach
