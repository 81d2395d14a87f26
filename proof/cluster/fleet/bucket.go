package fleet

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/proof/cluster/check"
)

// The headers of a version: upstream/natskv has them.
const (
	headerWritten = "Botwired-Written-At" // microseconds since 1970
	headerHost    = "Botwired-Host"
	headerSeq     = "Botwired-Seq"
	headerOp      = "KV-Operation"
)

// quiet bounds how long the servers may send nothing of a bucket that has more. It ends a hang.
const quiet = time.Minute

// PurgeNamespace removes all versions of a namespace's entries from a bucket, past all daemons.
func PurgeNamespace(ctx context.Context, url, bucket, namespace string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+bucket+"."+namespace+".>"))
}

// ReadBucket returns all versions that a bucket keeps, by rising revisions. Nobody may write meanwhile.
func ReadBucket(ctx context.Context, url, bucket string) (map[check.Entry][]check.Version, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil, err
	}
	last := stream.CachedInfo().State.LastSeq
	consumer, err := js.OrderedConsumer(ctx, "KV_"+bucket, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	all := make(map[check.Entry][]check.Version)
	// The count of the messages is no end: a server that is behind the leader still has versions that the
	// leader has dropped for newer ones.
	for seen := uint64(0); seen < last; {
		m, err := messages.Next(jetstream.NextMaxWait(quiet))
		if err != nil {
			return nil, fmt.Errorf("the bucket's versions from %d to %d have not come: %w", seen+1, last, err)
		}
		e, v, err := decode(m, bucket)
		if err != nil {
			return nil, err
		}
		all[e], seen = append(all[e], v), v.Revision
	}
	return all, nil
}

func decode(m jetstream.Msg, bucket string) (e check.Entry, v check.Version, err error) {
	name, ok := strings.CutPrefix(m.Subject(), "$KV."+bucket+".")
	namespace, key, both := strings.Cut(name, ".")
	if !ok || !both {
		return e, v, fmt.Errorf("the bucket has the subject %s", m.Subject())
	}
	meta, err := m.Metadata()
	if err != nil {
		return e, v, err
	}
	h := m.Headers()
	e = check.Entry{Namespace: namespace, Key: strings.ReplaceAll(key, "=", ".")}
	v = check.Version{Revision: meta.Sequence.Stream, Deleted: h.Get(headerOp) != "", Value: string(m.Data()), Host: h.Get(headerHost)}
	// A stranger's version has neither: the check finds nobody who has written it.
	if v.WrittenAt, err = number(h, headerWritten); err != nil {
		return e, v, err
	}
	seq, err := number(h, headerSeq)
	v.Seq = uint64(seq)
	return e, v, err
}

// number returns the number in a header; 0 if there is none.
func number(h nats.Header, name string) (int64, error) {
	text := h.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return n, err
}
