// Package recovery handles directories that are not as they should be: it examines a store
// without changing it, salvages what checks of a damaged one into a new store that takes
// its place, and brings a store of an older format to the present one. It works on
// directories that no process has open, whose lock the caller or [Recover] holds.
package recovery
