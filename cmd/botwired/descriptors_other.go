//go:build !unix

package main

// openFilesLimit returns 0: there is no such limit.
func openFilesLimit() uint64 { return 0 }
