package natskv

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/upstream"
)

// look is the answer of the stream's leader about the bucket.
type look struct {
	check
	connection int // number of the connection that carried the request
	connected  bool
	gone       bool // the bucket existed before, and no longer does
	created    time.Time
	at         time.Time // when the stream received its last message
	witness    witness
	subjects   uint64
	seen       uint64 // the highest revision known before the request
	err        *upstream.Error
	late       bool // err is a timeout
	unfit      bool // err says that the bucket's settings are unacceptable

	// searched says that the leader was asked for the last version that exists, and has answered with
	// the revision existing; 0 if there is none. before is the stream's last revision at the previous
	// comparison.
	searched         bool
	existing, before uint64
}

// unusable returns why the view cannot rely on the answer; "" if it can.
func (l *look) unusable() string {
	switch {
	case l.late:
		return "the bucket's leader does not answer in time; if this lasts, " + needsMajority
	case l.err != nil:
		return l.err.Reason
	case l.age > quorumFor:
		return "the bucket's leader has heard from no majority of its servers for " + lackOf(l.age) + ": " + needsMajority
	}
	return ""
}

// look asks the leader for the stream's state. If the watch seems asleep, it also asks for the last
// version that exists. It does not change the fields that run owns.
func (w *watch) look(ctx context.Context, before check, events int) look {
	timeout := checkTimeout
	if next, _ := w.keeper.deciding(); next != nil {
		timeout = lookUpTimeout // requests wait for the look, and servers without a leader never answer
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l := look{connection: w.keeper.current(), before: before.last, seen: max(w.index.figures().revision, w.progress.at())}
	stream := w.take(ctx, &l)
	if stream != nil {
		w.callWitness(ctx, stream, &l)
	}
	l.connected = w.e.link.jetStream() != nil
	if stream == nil || l.err != nil || !w.progress.asleep(before, events) {
		return l
	}
	m, err := stream.GetLastMsgForSubject(ctx, subjectPrefix(w.bucket)+">")
	switch {
	case err == nil:
		l.searched, l.existing = true, m.Sequence
	case errors.Is(err, jetstream.ErrMsgNotFound):
		l.searched = true
	}
	return l
}

// callWitness asks for the message at the mark's revision, if the keeper needs it.
func (w *watch) callWitness(ctx context.Context, stream jetstream.Stream, l *look) {
	mark, ok := w.keeper.toWitness(l)
	if !ok {
		return
	}
	one, failed := w.e.link.call(ctx, readSubject)
	if failed != nil {
		l.err = failed
		return
	}
	defer one.end()
	m, err := stream.GetMsg(one.ctx, mark.Revision)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		l.witness = isMissing
	case err != nil:
		l.err = neverSent(w.e.failure(one, err))
		l.late = errors.Is(err, context.DeadlineExceeded)
	default:
		id, _ := idOf(w.bucket, m.Subject)
		v := decode(message{Revision: m.Sequence, Header: m.Header, At: m.Time})
		l.witness = mark.judges(m.Time, id, v.WrittenAt)
	}
}

// take asks for the stream's state, and creates the bucket if it has never existed. If take fails, it
// returns nil.
func (w *watch) take(ctx context.Context, l *look) jetstream.Stream {
	l.asked = time.Now()
	one, failed := w.e.link.call(ctx, "$JS.API.STREAM.")
	if failed != nil {
		l.err = failed
		return nil
	}
	defer one.end()
	stream, err := one.js.Stream(one.ctx, streamName(w.bucket))
	missing := errors.Is(err, jetstream.ErrStreamNotFound)
	switch {
	case missing && w.keeper.knew():
		l.gone = true
		return nil
	case missing:
		if stream, l.err = w.e.bucket.make(one); l.err != nil {
			return nil
		}
	case err != nil:
		l.err = neverSent(w.e.failure(one, err))
		l.late = errors.Is(err, context.DeadlineExceeded)
		return nil
	}
	if l.err = w.e.bucket.take(stream); l.err != nil {
		l.unfit = true
		return nil
	}
	info := stream.CachedInfo()
	l.created, l.last, l.subjects = info.Created, info.State.LastSeq, info.State.NumSubjects
	l.at = info.State.LastTime
	l.age = quorumAge(info.Cluster)
	return stream
}

// neverSent converts the failure of a look into the failure of requests that waited for it and were not
// sent.
func neverSent(failed *upstream.Error) *upstream.Error {
	if failed.Verdict == upstream.Unanswered {
		return &upstream.Error{Verdict: upstream.Unsent, Reason: "the servers do not say whether the bucket is there"}
	}
	return failed
}

// never is the assumed age of a server that the leader has not heard from.
const never = 24 * time.Hour

// lackOf describes how long a majority has been missing.
func lackOf(age time.Duration) string {
	if age >= never {
		return "some time"
	}
	return words.Duration(age)
}

// quorumAge returns how long ago the leader last heard from a majority of servers, including itself.
// Until then it was certainly the leader.
func quorumAge(cluster *jetstream.ClusterInfo) time.Duration {
	if cluster == nil || len(cluster.Replicas) == 0 {
		return 0
	}
	ages := make([]time.Duration, 0, len(cluster.Replicas))
	for _, peer := range cluster.Replicas {
		if peer == nil || peer.Offline || peer.Active < 0 || peer.Active == 0 && !peer.Current {
			ages = append(ages, never)
			continue
		}
		ages = append(ages, peer.Active)
	}
	slices.Sort(ages)
	others := (len(ages) + 1) / 2 // with the leader, they are a majority
	return ages[others-1]
}
