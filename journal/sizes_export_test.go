package journal

import (
	"context"
	"unsafe"
)

// SizeOfSizes returns a namespace's memory, including its places in two maps.
func SizeOfSizes() int { return int(unsafe.Sizeof(size{})) + 2*2*24 }

// Namespaces returns how many namespaces are counted.
func (s *Sizes) Namespaces() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spaces)
}

// CountLoose counts the namespaces whose counts are loose.
func (s *Sizes) CountLoose() error { return s.countLoose(context.Background(), true) }
