package diskfs

import (
	"errors"
	"syscall"
)

// Windows has its own error numbers; syscall's Unix ones are invented there.
const (
	sharingViolation  syscall.Errno = 32
	handleDiskFull    syscall.Errno = 39
	diskFull          syscall.Errno = 112
	diskQuotaExceeded syscall.Errno = 1295
)

func isFullHere(err error) bool {
	return errors.Is(err, diskFull) || errors.Is(err, handleDiskFull) || errors.Is(err, diskQuotaExceeded)
}

func isLockedHere(err error) bool { return errors.Is(err, sharingViolation) }
