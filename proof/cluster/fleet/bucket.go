package fleet

import (
	"context"
	"errors"
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
	left := stream.CachedInfo().State.Msgs
	consumer, err := js.OrderedConsumer(ctx, "KV_"+bucket, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, err
	}
	all := make(map[check.Entry][]check.Version)
	for left > 0 {
		batch, err := consumer.Fetch(int(min(left, 5000)), jetstream.FetchMaxWait(quiet))
		if err != nil {
			return nil, err
		}
		got := uint64(0)
		for m := range batch.Messages() {
			got++
			e, v, err := decode(m, bucket)
			if err != nil {
				return nil, err
			}
			all[e] = append(all[e], v)
		}
		if got == 0 {
			return nil, errors.Join(batch.Error(), fmt.Errorf("%d messages of the bucket have not come", left))
		}
		left -= min(left, got)
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

// number is that of a header; 0 if there is none.
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
