//go:build !linux

package bootclock

import "time"

// Now returns no name: botwired can read no such clock here.
func Now() (boot string, since time.Duration) { return "", 0 }
