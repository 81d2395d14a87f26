package natskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/upstream"
)

const (
	// dialTimeout bounds one attempt to connect to one server.
	dialTimeout = 2 * time.Second
	// firstDial bounds how long Open waits for a connection: the daemon also starts without one.
	firstDial = time.Second
	// pingInterval and maxPings determine how fast a silent connection counts as broken.
	pingInterval, maxPings = 2 * time.Second, 2
	// writeTimeout bounds one write to the connection. nats.go blocks all requests during a write.
	writeTimeout = 5 * time.Second
	// reconnectFirst and reconnectMax bound the wait between two rounds of attempts.
	reconnectFirst, reconnectMax = 100 * time.Millisecond, 2 * time.Second
)

// errBroken ends a request whose connection has ended.
var errBroken = errors.New("the connection broke before the answer")

// errNotSecured ends an attempt to connect to another machine in the clear.
var errNotSecured = errors.New("botwired connects to another machine over TLS only: write tls:// in upstream.url")

// deniedError ends a request that the servers do not permit.
type deniedError struct{ text string }

func (d *deniedError) Error() string { return d.text }

func (d *deniedError) failure() *upstream.Error {
	return refusal(upstream.Paused, "the servers do not permit it: "+d.text)
}

// connection connects to the servers. nats.go reconnects whenever it breaks.
type connection struct {
	servers string
	inbox   string // prefix of the subjects of answers, in lower case
	log     *slog.Logger
	// onConnect is called each time that a connection is made, and onDisconnect when a connection is
	// lost.
	onConnect, onDisconnect func()

	closing context.Context // ends when the engine closes
	closed  chan struct{}   // closed once nats.go has ended

	// mu guards the fields below. nats.go holds a lock of its own while it connects, for seconds. So
	// nobody asks nats.go for its state with mu held: a request without a connection must fail at once.
	mu      sync.Mutex
	nc      *nats.Conn // nil until the first attempt has ended
	js      jetstream.JetStream
	server  string         // the connected server; "" if there is none
	lastErr error          // why there is no connection
	mute    *deniedError   // set if the servers do not permit answers on this connection
	calls   map[*call]bool // in flight
}

// call is a request in flight, or several in a row.
type call struct {
	ctx     context.Context
	js      jetstream.JetStream
	subject string // prefix of the subjects to which the call publishes
	cancel  context.CancelCauseFunc
	link    *connection
}

// connect starts to connect, and returns when the first attempt has ended, or after firstDial. It fails
// only if the options cannot be used.
func connect(ctx, closing context.Context, opts Options, onConnect, onDisconnect func()) (*connection, error) {
	c := &connection{
		servers: strings.Join(opts.Servers, ","), inbox: strings.ToLower(cmp.Or(opts.Access.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))), log: opts.Logger, onConnect: onConnect, onDisconnect: onDisconnect,
		closing: closing, closed: make(chan struct{}), calls: make(map[*call]bool),
	}
	settings, err := c.settings(opts)
	if err != nil {
		return nil, err
	}
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		c.begins(settings.Connect())
	}()
	timer := time.NewTimer(firstDial)
	defer timer.Stop()
	select {
	case <-tried:
	case <-timer.C:
	case <-ctx.Done():
	}
	return c, nil
}

func (c *connection) settings(opts Options) (nats.Options, error) {
	settings := nats.GetDefaultOptions()
	settings.Servers = opts.Servers
	options := []nats.Option{
		nats.Name(opts.Name),
		nats.SetCustomDialer(dial(c.closing, opts.TLS != nil)),
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(c.reconnectDelay),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
		nats.FlusherTimeout(writeTimeout),
		nats.ReconnectOnFlusherError(),
		// A request without a connection fails at once: it is never buffered and sent later.
		nats.ReconnectBufSize(-1),
		// The servers may accept botwired after a person has changed a password.
		nats.IgnoreAuthErrorAbort(),
		nats.ConnectHandler(func(nc *nats.Conn) { c.connected(nc) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { c.connected(nc) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.disconnected(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.note(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.complains(err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	}
	signed, err := access(opts, c.signIn(opts))
	if err != nil {
		return settings, fmt.Errorf("connect to NATS: %w", err)
	}
	for _, option := range append(options, signed...) {
		if err := option(&settings); err != nil {
			return settings, fmt.Errorf("connect to NATS: %w", err)
		}
	}
	return settings, nil
}

// signIn returns a function that returns how botwired signs in now. While that cannot be read, it is as before.
func (c *connection) signIn(opts Options) func() Access {
	last, lastErr := opts.Access, ""
	return func() Access {
		if opts.Renew == nil {
			return last
		}
		a, err := opts.Renew()
		switch {
		case err == nil:
			last, lastErr = a, ""
		case err.Error() != lastErr: // a daemon that is refused tries again and again
			lastErr = err.Error()
			c.log.Warn("upstream's password or token cannot be read: botwired signs in as before", "error", err)
		}
		return last
	}
}

type dialFunc func(network, address string) (net.Conn, error)

func (d dialFunc) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// dial connects to servers. Without TLS it leaves this machine for none, also if another server names it.
func dial(ctx context.Context, secured bool) dialFunc {
	dialer := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err == nil && !secured && !to.Addr().IsLoopback() { // guard 13.69
			return errNotSecured
		}
		return err
	}}
	return func(network, address string) (net.Conn, error) { return dialer.DialContext(ctx, network, address) }
}

// reconnectDelay returns the wait after the given number of rounds over all servers.
func (c *connection) reconnectDelay(rounds int) time.Duration {
	c.mu.Lock()
	nc := c.nc
	c.mu.Unlock()
	if nc != nil {
		c.note(nc.LastError()) // no handler reports a server that refuses botwired
	}
	longest := min(reconnectFirst<<min(rounds, 10), reconnectMax)
	return longest/2 + rand.N(longest/2)
}

// begins stores the result of nats.go's first attempt. If the engine has been closed meanwhile, begins
// closes the connection.
func (c *connection) begins(nc *nats.Conn, err error) {
	if err != nil {
		c.note(err)
		close(c.closed) // nats.go has started nothing
		return
	}
	js, err := jetstream.New(nc)
	c.note(err)
	server := nc.ConnectedUrlRedacted()
	c.mu.Lock()
	c.nc, c.js = nc, js
	if c.server == "" {
		c.server = server
	}
	c.mu.Unlock()
	if c.closing.Err() != nil {
		nc.Close()
	}
}

// close closes the connection and waits until it has ended. The context closing has ended before.
func (c *connection) close() {
	c.mu.Lock()
	nc := c.nc
	c.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
	<-c.closed
}

func (c *connection) connected(nc *nats.Conn) {
	server := nc.ConnectedUrlRedacted()
	c.mu.Lock()
	c.server, c.lastErr, c.mute = server, nil, nil
	c.mu.Unlock()
	c.log.Info("connected to upstream", "server", server)
	c.onConnect()
}

// disconnected ends all requests: their answers are lost with the connection.
func (c *connection) disconnected(err error) {
	if err == nil {
		err = errors.New("the connection was closed")
	}
	c.mu.Lock()
	c.server, c.lastErr = "", err
	c.mu.Unlock()
	c.onDisconnect()
	c.cancel(errBroken, func(*call) bool { return true })
	if c.closing.Err() == nil {
		c.log.Warn("upstream's connection has broken: botwired connects again", "reason", explain(err))
	}
}

func (c *connection) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lastErr = err
	}
}

// complains handles an error that a server sends outside of any answer. That is how a server refuses a
// request that it does not permit.
func (c *connection) complains(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		c.note(err)
		return
	}
	denied := &deniedError{err.Error()}
	answers := strings.Contains(strings.ToLower(denied.text), `subscription to "`+c.inbox+".")
	if answers { // a server reports this only once
		c.mu.Lock()
		c.mute = denied
		c.mu.Unlock()
	}
	c.cancel(denied, func(one *call) bool {
		return answers || strings.Contains(denied.text, `"`+one.subject)
	})
}

// cancel ends the requests for which is returns true.
func (c *connection) cancel(why error, is func(*call) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.calls {
		if is(one) {
			one.cancel(why)
		}
	}
}

// call begins a request that publishes to subjects with the prefix subject. Its context ends with ctx
// and with the connection. It fails as Unsent without a connection, and as Paused if the servers do not
// permit answers.
func (c *connection) call(ctx context.Context, subject string) (*call, *upstream.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.js == nil || c.server == "" {
		return nil, c.absent()
	}
	if c.mute != nil {
		return nil, c.mute.failure()
	}
	one := &call{js: c.js, subject: subject, link: c}
	one.ctx, one.cancel = context.WithCancelCause(ctx)
	c.calls[one] = true
	return one, nil
}

func (one *call) end() {
	one.cancel(nil)
	one.link.mu.Lock()
	defer one.link.mu.Unlock()
	delete(one.link.calls, one)
}

// absent returns the failure of a request without a connection. The caller holds mu.
func (c *connection) absent() *upstream.Error {
	reason := "no connection to " + c.servers
	if c.lastErr != nil {
		reason += ": " + explain(c.lastErr)
	}
	return &upstream.Error{Verdict: upstream.Unsent, Unreachable: true, Reason: reason}
}

// missing returns the failure of a request without a connection. The caller does not hold mu.
func (c *connection) missing() *upstream.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.absent()
}

// jetStream returns nil while there is no connection.
func (c *connection) jetStream() jetstream.JetStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == "" {
		return nil
	}
	return c.js
}

// connectedTo returns the address of the connected server; "" if there is none.
func (c *connection) connectedTo() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}
