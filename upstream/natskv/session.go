package natskv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/journal"
)

const (
	// consumerSubject is the prefix of the subjects of requests about consumers.
	consumerSubject = "$JS.API.CONSUMER."
	// openTimeout bounds the creation of a session's consumer, and its deletion.
	openTimeout = 5 * time.Second
	// heartbeat is the time between two heartbeats of an idle server.
	heartbeat = time.Second
	// fetch bounds the messages that the servers send before the session requests more.
	fetch = 5000
	// consumerFor is how long servers keep the consumer of a session that is gone, if nobody deletes it.
	consumerFor = time.Minute
)

// session feeds the index with the stream's messages, in order and without a gap.
type session struct {
	w       *watch
	loading bool   // owned by run: the session delivers the whole bucket first
	last    uint64 // the stream's last revision before the session began
	began   time.Time
	cancel  context.CancelFunc
	done    chan struct{} // closed when the session ends

	// mu guards the fields below, which are for revisions up to last while loading.
	mu      sync.Mutex
	shown   []uint64     // the delivered revisions
	earlier []journal.ID // entries of which the index has a later version than was delivered
}

// begin starts a session. It resumes after the watch's last revision, unless the watch was away for too
// long.
func (w *watch) begin(ctx context.Context, l look) {
	loading := w.progress.hasToLoad(time.Now())
	after := w.progress.begin(loading, l.last)
	ctx, cancel := context.WithCancel(ctx)
	s := &session{w: w, loading: loading, last: l.last, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	if loading {
		w.index.forgetForeign()
	}
	w.session = s
	if before := w.consumer; before != "" {
		w.e.background.Go(func() { w.deleteConsumer(before) })
	}
	w.consumer = rand.Text()
	config := s.config(w.consumer, loading, after)
	go func() {
		defer close(s.done)
		defer w.progress.ended()
		if err := s.run(ctx, config); err != nil && ctx.Err() == nil {
			w.log.Debug("a watch of the bucket has ended", "error", err)
			w.progress.blame("the watch of the bucket has ended: " + err.Error())
		}
	}()
}

// sessionEnded returns a channel that closes when the session ends.
func (w *watch) sessionEnded() <-chan struct{} {
	if w.session == nil {
		return nil
	}
	return w.session.done
}

// endSession ends the session and waits for it.
func (w *watch) endSession() {
	if w.session == nil {
		return
	}
	w.session.cancel()
	<-w.session.done
	w.session = nil
}

// deleteConsumer deletes the consumer of a session that has ended: an account may have few.
func (w *watch) deleteConsumer(name string) {
	ctx, cancel := context.WithTimeout(w.e.link.closing, openTimeout)
	defer cancel()
	one, failed := w.e.link.call(ctx, consumerSubject+"DELETE.")
	if failed != nil {
		return
	}
	defer one.end()
	if err := one.js.DeleteConsumer(one.ctx, streamName(w.bucket), name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		w.log.Debug("the consumer of an earlier watch stays for a while", "error", w.e.failure(one, err))
	}
}

func (s *session) run(ctx context.Context, config jetstream.ConsumerConfig) error {
	consumer, err := s.open(ctx, config)
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	one, failed := s.w.e.link.call(ctx, consumerSubject+"MSG.NEXT.")
	if failed != nil {
		return failed
	}
	defer one.end()
	messages, err := consumer.Messages(
		jetstream.PullMaxMessages(fetch), jetstream.PullHeartbeat(heartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return fmt.Errorf("ask for messages: %w", err)
	}
	defer messages.Stop()
	s.w.progress.opened()
	s.w.stir()
	err = s.follow(one.ctx, messages, config.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy)
	if cause := context.Cause(one.ctx); cause != nil {
		return cause
	}
	return err
}

func (s *session) open(ctx context.Context, config jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	one, failed := s.w.e.link.call(ctx, consumerSubject+"CREATE.")
	if failed != nil {
		return nil, failed
	}
	defer one.end()
	opening, cancel := context.WithTimeout(one.ctx, openTimeout)
	defer cancel()
	consumer, err := one.js.CreateConsumer(opening, streamName(s.w.bucket), config)
	if cause := context.Cause(one.ctx); cause != nil {
		return nil, cause
	}
	return consumer, err
}

func (s *session) config(name string, loading bool, after uint64) jetstream.ConsumerConfig {
	config := jetstream.ConsumerConfig{
		Name: name, Description: "botwired's index", DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		AckPolicy: jetstream.AckNonePolicy, FilterSubject: subjectPrefix(s.w.bucket) + ">", HeadersOnly: true,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerFor,
	}
	if loading {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	return config
}

// follow handles messages until one is missing, or the servers are silent.
func (s *session) follow(ctx context.Context, messages jetstream.MessagesContext, loading bool) error {
	for next := uint64(1); ; next++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("wait for the next message: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read where a message belongs: %w", err)
		}
		if meta.Sequence.Consumer != next {
			return fmt.Errorf("message %d came in place of %d", meta.Sequence.Consumer, next)
		}
		s.take(m, meta, loading)
	}
}

func (s *session) take(m jetstream.Msg, meta *jetstream.MsgMetadata, loading bool) {
	revision := meta.Sequence.Stream
	seen := Mark{Revision: revision, At: meta.Timestamp}
	if id, ok := idOf(s.w.bucket, m.Subject()); ok {
		header := m.Headers()
		v := s.w.e.decode(message{Revision: revision, Header: header, At: meta.Timestamp})
		seen.Entry, seen.Written = id, v.WrittenAt
		if s.w.index.apply(id, v) && loading {
			s.mu.Lock()
			s.earlier = append(s.earlier, id)
			s.mu.Unlock()
		}
		if stays, ends := lifetime(header); ends {
			seen.Entry, seen.Written = journal.ID{}, 0
			s.w.index.expires(id, revision, meta.Timestamp.Add(stays+expiryMargin))
		}
	} else {
		s.w.index.addForeign(m.Subject())
	}
	s.w.keeper.sees(seen)
	if loading && revision <= s.last {
		s.mu.Lock()
		s.shown = append(s.shown, revision)
		s.mu.Unlock()
	}
	if s.w.progress.event(revision, meta.NumPending) {
		s.w.stir()
	}
}

func (s *session) takeShown() (shown []uint64, earlier []journal.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown, earlier = s.shown, s.earlier
	s.shown, s.earlier = nil, nil
	slices.Sort(shown)
	return shown, earlier
}
