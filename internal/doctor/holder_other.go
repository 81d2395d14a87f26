//go:build !linux && !darwin

package doctor

import "errors"

// Holder returns the number of the process that holds a lock on a file; errors.ErrUnsupported
// where it cannot.
func Holder(string) (int, error) { return 0, errors.ErrUnsupported }
