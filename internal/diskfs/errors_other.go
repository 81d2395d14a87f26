//go:build !windows

package diskfs

func isFullHere(error) bool   { return false }
func isLockedHere(error) bool { return false }
