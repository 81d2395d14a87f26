// Package fleet runs several daemons over one bucket, each the real program with a directory of its own,
// speaks to them over HTTP as their callers do, and reads the bucket past them.
package fleet
