// Package loopback finds addresses for the servers of tests and benchmarks.
package loopback

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
)

// The systems give away the ports from 32768 on by themselves, to any connection and to
// whoever listens on port 0. Many services have theirs below 10000.
const (
	firstPort  = 10_000
	endOfPorts = 32_768
	portsTried = 100
)

// FreeAddress is a loopback address where nobody listens: host and port. Nobody gets the
// port by chance later, so a server may be started, ended and started again on it.
func FreeAddress(ctx context.Context) (address string, err error) {
	for range portsTried {
		address = fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(endOfPorts-firstPort)) //nolint:gosec // no secret
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", err
}
