package natskv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"github.com/botwired/botwired/upstream"
)

// lookUpTimeout bounds one look-up of the bucket. Servers that have not agreed on a leader yet give no
// answer at all, ever: the question has to be asked again.
const lookUpTimeout = 2 * time.Second

// bucket is the stream that holds the entries. It is looked up with the first request on each
// connection, and made if there is none.
type bucket struct {
	e      *Engine
	flight singleflight.Group

	mu       sync.Mutex
	stream   jetstream.Stream // nil until it has been found, and was made as it must be
	found    bool             // it was there once: if it is gone, nothing makes it again by itself
	warnings []string
}

func newBucket(e *Engine) *bucket { return &bucket{e: e} }

// forget has the next request look the bucket up again.
func (b *bucket) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream = nil
}

// startOver lets the bucket be made again though it was there once: a person has accepted that.
func (b *bucket) startOver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream, b.found = nil, false
}

// warns returns what to say of the bucket's settings.
func (b *bucket) warns() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.warnings)
}

// open returns the stream, for requests that ask its leader.
func (b *bucket) open(ctx context.Context) (jetstream.Stream, *upstream.Error) {
	b.mu.Lock()
	stream := b.stream
	b.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	// The look-up is shared by all who need it: none of them ends it for the others.
	looked := b.flight.DoChan("", func() (any, error) {
		stream, failed := b.lookUp()
		if failed != nil {
			return nil, failed
		}
		return stream, nil
	})
	select {
	case r := <-looked:
		var failed *upstream.Error
		if errors.As(r.Err, &failed) {
			return nil, failed
		}
		return r.Val.(jetstream.Stream), nil
	case <-ctx.Done():
		return nil, &upstream.Error{Verdict: upstream.Unsent, Reason: "the servers do not say whether the bucket is there"}
	}
}

// lookUp finds the bucket, or makes it, and checks how it was made.
func (b *bucket) lookUp() (jetstream.Stream, *upstream.Error) {
	ctx, cancel := context.WithTimeout(b.e.link.closing, min(lookUpTimeout, b.e.opts.Timeout))
	defer cancel()
	one, failed := b.e.link.call(ctx, "$JS.API.STREAM.")
	if failed != nil {
		return nil, failed
	}
	defer one.end()
	stream, err := one.js.Stream(one.ctx, streamName(b.e.opts.Bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, failed = b.make(one)
		if failed != nil {
			return nil, failed
		}
	} else if err != nil {
		return nil, neverSent(b.e.failure(one, err))
	}
	if failed := b.take(stream); failed != nil {
		return nil, failed
	}
	return stream, nil
}

// neverSent is the failure of a request that waits for the look-up, and has not been sent itself.
func neverSent(failed *upstream.Error) *upstream.Error {
	if failed.Verdict == upstream.Unanswered {
		return &upstream.Error{Verdict: upstream.Unsent, Reason: "the servers do not say whether the bucket is there"}
	}
	return failed
}

// make makes the bucket, unless it was there before: then it has been lost, and with it the memory.
func (b *bucket) make(one *call) (jetstream.Stream, *upstream.Error) {
	opts := &b.e.opts
	known, err := b.known()
	if err != nil {
		return nil, &upstream.Error{Verdict: upstream.Unsent, Reason: "botwired cannot tell whether the bucket was there before: " + err.Error()}
	}
	if known {
		return nil, refusal(upstream.Paused, "the bucket "+opts.Bucket+" is gone: it was there, and somebody or something has removed it")
	}
	if !opts.Create {
		return nil, refusal(upstream.Paused, "the bucket "+opts.Bucket+" does not exist: make it, or let botwired make it with upstream.nats.create")
	}
	stream, err := one.js.CreateStream(one.ctx, b.config())
	var answer *jetstream.APIError
	switch {
	case err == nil:
		b.e.opts.Logger.Info("botwired has made the bucket", "bucket", opts.Bucket, "replicas", opts.Replicas, "history", opts.History)
		return stream, nil
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another host was faster
		stream, err = one.js.Stream(one.ctx, streamName(opts.Bucket))
		if err == nil {
			return stream, nil
		}
	case errors.As(err, &answer) && answer.ErrorCode == codeNoReplicas:
		return nil, refusal(upstream.Paused, fmt.Sprintf("the bucket %s cannot be made: upstream.nats.replicas is %d, and the server is alone", opts.Bucket, opts.Replicas))
	case errors.As(err, &answer) && answer.ErrorCode == codeNoPeers: // servers may be starting
		return nil, refusal(upstream.Transient, fmt.Sprintf("the bucket %s cannot be made: upstream.nats.replicas is %d, and fewer servers are up: %s",
			opts.Bucket, opts.Replicas, answer.Description))
	}
	return nil, neverSent(b.e.failure(one, err))
}

// known reports whether the bucket was there before.
func (b *bucket) known() (bool, error) {
	b.mu.Lock()
	found := b.found
	b.mu.Unlock()
	if found || b.e.opts.Marks == nil {
		return found, nil
	}
	mark, err := b.e.opts.Marks.Load()
	return !mark.Created.IsZero(), err
}

// config is how botwired makes a bucket.
func (b *bucket) config() jetstream.StreamConfig {
	opts := &b.e.opts
	return jetstream.StreamConfig{
		Name:              streamName(opts.Bucket),
		Description:       "BotWire's memory, kept by botwired",
		Subjects:          []string{subjectPrefix(opts.Bucket) + ">"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Replicas:          opts.Replicas,
		MaxMsgsPerSubject: int64(opts.History),
		MaxMsgs:           -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Discard:     jetstream.DiscardNew, // full, it refuses writes: it never forgets entries
		DenyDelete:  true,
		AllowRollup: true, // for the end of old tombstones
		AllowMsgTTL: true,
		AllowDirect: false, // only the leader answers reads: the others may be behind
	}
}

// take keeps the stream if it is as it must be; if not, no request is made to it.
func (b *bucket) take(stream jetstream.Stream) *upstream.Error {
	config := stream.CachedInfo().Config
	if wrong := wrongWith(config, b.e.opts.Bucket); wrong != "" {
		b.forget() // it may have been edited while requests went to it
		return refusal(upstream.Paused, "the bucket "+b.e.opts.Bucket+" cannot keep the memory: "+wrong)
	}
	warnings := dubious(config, b.e.opts.Replicas)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(warnings, b.warnings) {
		for _, w := range warnings {
			b.e.opts.Logger.Log(context.Background(), slog.LevelWarn, "the bucket's settings endanger what it holds", "bucket", b.e.opts.Bucket, "warning", w)
		}
	}
	b.stream, b.found, b.warnings = stream, true, warnings
	return nil
}

// wrongWith says which setting of a stream makes it lose or misreport entries, and what to do; ""
// if none does.
func wrongWith(c jetstream.StreamConfig, bucket string) string {
	edit := func(flag string) string { return ": run \"nats stream edit " + c.Name + " " + flag + "\"" }
	const another = ": it cannot be changed, use another bucket"
	switch {
	case c.AllowDirect:
		return "allow_direct lets servers answer that are behind" + edit("--no-allow-direct")
	case c.Storage != jetstream.FileStorage:
		return "it is kept in memory, not in files" + another
	case c.Retention != jetstream.LimitsPolicy:
		return "its retention is " + c.Retention.String() + ", not limits" + another
	case c.Mirror != nil, len(c.Sources) != 0:
		return "it copies another stream" + another
	case c.Sealed:
		return "it is sealed" + another
	case c.NoAck:
		return "no_ack leaves writes unconfirmed" + edit("--ack")
	case c.MaxAge != 0:
		return "max_age removes entries with time: set max_age to 0"
	case c.Discard != jetstream.DiscardNew:
		return "full, it would remove old entries" + edit("--discard=new")
	case c.DiscardNewPerSubject:
		return "discard_new_per_subject refuses writes to an entry that has had some: set it to false"
	case c.SubjectTransform != nil:
		return "it renames subjects: remove subject_transform"
	case !slices.Contains(c.Subjects, subjectPrefix(bucket)+">"):
		return "its subjects are " + strings.Join(c.Subjects, ", ") + ": they must contain " + subjectPrefix(bucket) + ">"
	}
	return ""
}

// dubious lists what of a stream's settings endangers the memory's durability or its upkeep.
func dubious(c jetstream.StreamConfig, replicas int) []string {
	var warnings []string
	if c.Replicas < replicas {
		warnings = append(warnings, fmt.Sprintf(
			"it lies on %d of the %d servers that upstream.nats.replicas asks for, and what these lose is lost: run \"nats stream edit %s --replicas=%d\"",
			c.Replicas, replicas, c.Name, replicas))
	}
	if c.PersistMode == jetstream.AsyncPersistMode {
		warnings = append(warnings, "persist_mode is async: a server confirms writes that it may still lose")
	}
	if !c.AllowRollup || !c.AllowMsgTTL {
		warnings = append(warnings, "allow_rollup_hdrs or allow_msg_ttl is false: old tombstones stay for ever")
	}
	if c.MaxMsgsPerSubject <= 0 {
		warnings = append(warnings, "max_msgs_per_subject is unlimited: the bucket grows with every write")
	}
	return warnings
}
