//go:build !linux && !darwin

package doctor

import "errors"

// Look returns the file system that a directory is on, or errors.ErrUnsupported.
func Look(string) (Volume, error) { return Volume{}, errors.ErrUnsupported }
