//go:build !unix

package main

// openFilesLimit is 0: there is no such limit.
func openFilesLimit() uint64 { return 0 }
