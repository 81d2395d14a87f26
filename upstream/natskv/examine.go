package natskv

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Examination holds the findings of Examine, step by step. After a failed step, the fields of later
// steps are zero.
type Examination struct {
	Connect error // why no server accepts this client
	Server  string
	Trips   []time.Duration

	Lookup  error // why the bucket cannot be looked up
	Missing bool  // there is no bucket
	// Lost says why the bucket cannot be the one that Options.Marks knows: upstream has lost writes that it had
	// confirmed. It is empty if it can be. MarkErr says why the mark cannot be read: the daemon then does not start.
	Lost     string
	MarkErr  error
	Wrong    string
	Dubious  []string // settings that endanger the bucket's contents
	Replicas int
	Behind   []string // servers that hold the bucket, and are offline or behind
	// NoMajority says that the leader has heard from too few of them, and can confirm no write.
	NoMajority bool

	// The server's clock showed ServerTime between Asked and Answered.
	Asked, ServerTime, Answered time.Time
}

// explained describes a failure to connect for people.
type explained struct{ err error }

func (e explained) Error() string { return explain(e.err) }
func (e explained) Unwrap() error { return e.err }

const examineTrips = 5

// Examine checks the servers and the bucket over its own connection, and changes nothing. It returns
// when ctx ends. Each step after connecting takes at most Options.Timeout.
func Examine(ctx context.Context, opts Options) *Examination {
	x := &Examination{}
	settings := nats.GetDefaultOptions()
	settings.Servers, settings.AllowReconnect, settings.Name = opts.Servers, false, opts.Name
	options, err := access(opts, func() Access { return opts.Access })
	if err != nil {
		x.Connect = err
		return x
	}
	for _, option := range append(options, nats.SetCustomDialer(dial(ctx, opts.TLS != nil)), nats.Timeout(dialTimeout)) {
		if x.Connect = option(&settings); x.Connect != nil {
			return x
		}
	}
	nc, err := settings.Connect()
	if err != nil {
		x.Connect = explained{err}
		return x
	}
	defer nc.Close()
	x.Server = nc.ConnectedUrlRedacted()
	x.measure(ctx, nc, opts.Timeout)
	js, err := jetstream.New(nc)
	if err != nil {
		x.Lookup = err
		return x
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	x.bucket(ctx, js, opts)
	return x
}

// measure measures round trips until one of them takes too long.
func (x *Examination) measure(ctx context.Context, nc *nats.Conn, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for range examineTrips {
		began := time.Now()
		if nc.FlushWithContext(ctx) != nil {
			return
		}
		x.Trips = append(x.Trips, time.Since(began))
	}
}

func (x *Examination) bucket(ctx context.Context, js jetstream.JetStream, opts Options) {
	x.Asked = time.Now()
	stream, err := js.Stream(ctx, streamName(opts.Bucket))
	x.Answered = time.Now()
	mark, markErr := opts.Marks.Load()
	known := &keeper{mark: mark}
	if x.MarkErr = markErr; errors.Is(err, jetstream.ErrStreamNotFound) {
		x.Missing, x.Lost = true, known.differs(Mark{}, notAsked)
		return
	}
	if x.Lookup = err; err != nil {
		return
	}
	info := stream.CachedInfo()
	x.Lost = known.differs(Mark{Created: info.Created, Revision: info.State.LastSeq}, notAsked)
	x.NoMajority = quorumAge(info.Cluster) > quorumFor
	x.ServerTime = info.TimeStamp
	x.Wrong, x.Dubious = wrongWith(info.Config, opts.Bucket), dubious(info.Config, opts.Replicas)
	x.Replicas = info.Config.Replicas
	if info.Cluster == nil {
		return
	}
	for _, peer := range info.Cluster.Replicas {
		if peer != nil && (peer.Offline || !peer.Current) {
			x.Behind = append(x.Behind, peer.Name)
		}
	}
}

// Refuses reports whether an error from Examine means that the servers refuse this client.
func Refuses(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrPermissionViolation)
}

// access returns the options that authenticate and secure the connection. now returns the user, password
// and token at each attempt to connect.
func access(opts Options, now func() Access) ([]nats.Option, error) {
	var options []nats.Option
	if opts.TLS != nil {
		options = append(options, nats.Secure(opts.TLS))
	}
	if opts.TLSFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	a := &opts.Access
	if a.InboxPrefix != "" {
		options = append(options, nats.CustomInboxPrefix(a.InboxPrefix))
	}
	switch {
	case a.User == "" && a.Credentials != "":
		options = append(options, nats.UserCredentials(a.Credentials))
	case a.User == "" && a.NKey != "":
		signed, err := nats.NkeyOptionFromSeed(a.NKey)
		if err != nil {
			return nil, err
		}
		options = append(options, signed)
	default:
		var token string
		options = append(options, nats.TokenHandler(func() string { return token }),
			nats.UserInfoHandler(func() (user, password string) { // nats.go calls it before the other
				a := now()
				if token = a.Token; a.User != "" {
					token = ""
				}
				return a.User, a.Password
			}))
	}
	return options, nil
}
