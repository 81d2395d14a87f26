package natskv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/upstream"
)

// bucket is the stream that holds the entries. The watch looks up the stream, and creates it if it has
// never existed.
type bucket struct {
	e *Engine

	mu       sync.Mutex
	stream   jetstream.Stream // nil until the stream was found and its settings were accepted
	warnings []string         // the logged ones
}

// open returns the stream for requests to its leader; nil until the stream was found and its settings
// were accepted.
func (b *bucket) open() jetstream.Stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream
}

// make creates the bucket, which has never existed before, if the settings allow that.
func (b *bucket) make(one *call) (jetstream.Stream, *upstream.Error) {
	opts := &b.e.opts
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
		return nil, refusal(upstream.Paused, fmt.Sprintf("the bucket %s cannot be made: upstream.nats.replicas is %d, and the server is alone. With one server, set upstream.nats.replicas: 1", opts.Bucket, opts.Replicas))
	case errors.As(err, &answer) && answer.ErrorCode == codeNoPeers: // servers may be starting
		return nil, refusal(upstream.Transient, fmt.Sprintf("the bucket %s cannot be made: upstream.nats.replicas is %d, and fewer servers are up: %s",
			opts.Bucket, opts.Replicas, answer.Description))
	}
	return nil, neverSent(b.e.failure(one, err))
}

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
		Discard:     jetstream.DiscardNew, // a full bucket refuses writes, and never drops entries
		DenyDelete:  true,
		AllowRollup: true, // to remove old tombstones
		AllowMsgTTL: true,
		AllowDirect: false, // only the leader answers reads: the others may be behind
	}
}

// take stores the stream if its settings are acceptable, and otherwise returns the refusal.
func (b *bucket) take(stream jetstream.Stream) *upstream.Error {
	config := stream.CachedInfo().Config
	if wrong := wrongWith(config, b.e.opts.Bucket); wrong != "" {
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
	b.stream, b.warnings = stream, warnings
	return nil
}

// wrongWith returns a setting that makes a stream lose or misreport entries, and the remedy; "" if
// there is none.
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

// dubious returns warnings about settings that endanger the memory's durability or its upkeep.
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
