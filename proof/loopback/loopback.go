// Package loopback finds addresses for the servers of tests and benchmarks.
package loopback

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
)

// The systems give away the ports from 32768 on by themselves, to any connection and to
// whoever listens on port 0. Many services have theirs below 10000.
const (
	firstPort  = 10_000
	endOfPorts = 32_768
	portsTried = 100
)

// given has the addresses that were given already, with their claims: they look free until somebody listens.
var given sync.Map

// FreeAddress is a loopback address where nobody listens: host and port. Nobody gets the
// port by chance later, and no other call of this process, nor on Linux of another one while this
// process runs, so a server may be started, ended and started again on it.
func FreeAddress(ctx context.Context) (string, error) {
	for range portsTried {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(endOfPorts-firstPort))
		if _, again := given.LoadOrStore(address, true); again || !claim(ctx, address) {
			continue
		}
		// A trial by listening could hold the port for a while longer: a program that is just being started
		// has its parent's sockets until it runs.
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close() // somebody listens there
			continue
		}
		return address, ctx.Err()
	}
	return "", fmt.Errorf("no free address after %d tries", portsTried)
}

// claim reports whether no other process has claimed an address. The claim is the name of a socket that
// nobody connects to: the system drops it when the process ends. Only Linux has names without files.
func claim(ctx context.Context, address string) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	claimed, err := new(net.ListenConfig).Listen(ctx, "unix", "@botwired test "+address)
	if err == nil {
		given.Store(address, claimed) // the collector closes a socket that nobody has
	}
	return err == nil
}
