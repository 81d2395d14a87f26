//go:build !unix

package main

import "os"

func keepFilesPrivate() {}

func ownerOf(os.FileInfo) int { return os.Geteuid() }

// openFilesLimit returns 0: there is no such limit.
func openFilesLimit() uint64 { return 0 }
