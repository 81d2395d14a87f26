//go:build !unix

package seal

import "os"

// private accepts every file: its mode does not say who may read it.
func private(os.FileInfo) error { return nil }
