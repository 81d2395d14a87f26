//go:build !linux && !darwin

package doctor

import "errors"

// Look tells the file system of a directory; errors.ErrUnsupported where it cannot.
func Look(string) (Volume, error) { return Volume{}, errors.ErrUnsupported }
