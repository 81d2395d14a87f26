//go:build !linux

package botwire

import "net"

// unacknowledged returns 0: the system does not say.
func unacknowledged(net.Conn) int64 { return 0 }
