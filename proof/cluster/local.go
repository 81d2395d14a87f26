package cluster

import (
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/botwired/botwired/proof/loopback"
	"github.com/nats-io/nats-server/v2/server"
)

// Local is one server in this process, with JetStream on files in a directory of the test's. It is
// ready in milliseconds. The system gives its address to nobody else while it is stopped. Its methods are
// for one goroutine at a time.
type Local struct {
	options server.Options
	server  *server.Server // nil while it is stopped
}

// readyWithin bounds how long a server may take to start or to stop.
const readyWithin = 30 * time.Second

// RunServer starts a server for a test, and stops it at the test's end. Each of set may change its
// options before: users, TLS, limits.
func RunServer(tb testing.TB, set ...func(*server.Options)) *Local {
	tb.Helper()
	address, err := loopback.FreeAddress(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		tb.Fatal(err)
	}
	l := &Local{options: server.Options{
		Host: at.Addr().String(), Port: int(at.Port()), NoLog: true, NoSigs: true,
		JetStream: true, JetStreamMaxStore: storeLimit, JetStreamMaxMemory: storeLimit, StoreDir: tb.TempDir(), SyncAlways: true,
		DisableJetStreamBanner: true,
	}}
	for _, change := range set {
		change(&l.options)
	}
	if err := l.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Stop)
	return l
}

// Start starts the server, on the address and the files that it had before.
func (l *Local) Start() error {
	options := l.options
	s, err := server.NewServer(&options)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(readyWithin) {
		s.Shutdown()
		return errors.New("the server takes no connections")
	}
	l.server = s
	return nil
}

// Stop stops the server, and returns when its files are closed.
func (l *Local) Stop() {
	if l.server == nil {
		return
	}
	l.server.Shutdown()
	l.server.WaitForShutdown()
	l.server = nil
}

// SetStoreDir has the next start use other files.
func (l *Local) SetStoreDir(dir string) { l.options.StoreDir = dir }

// StoreDir is where the server has its files.
func (l *Local) StoreDir() string { return l.options.StoreDir }

// Reload changes options of the running server, which ends the connections of clients that it no longer
// lets in.
func (l *Local) Reload(set func(*server.Options)) error {
	set(&l.options)
	options := l.options
	return l.server.ReloadOptions(&options)
}

// Change changes the options of the next start.
func (l *Local) Change(set func(*server.Options)) { set(&l.options) }

// Address is the server's host and port.
func (l *Local) Address() string { return "127.0.0.1:" + strconv.Itoa(l.options.Port) }

// URL is the server's address for clients.
func (l *Local) URL() string { return "nats://" + l.Address() }
