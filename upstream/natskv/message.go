package natskv

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// The headers of a message besides NATS' own, and the author's.
const (
	headerCreated = "Botwired-Created-At" // microseconds since 1970
	headerWritten = "Botwired-Written-At" // microseconds since 1970
	headerBytes   = "Botwired-Bytes"      // the size that a listing gives
	headerHost    = "Botwired-Host"       // see upstream.Writer
	headerSeq     = "Botwired-Seq"
)

// NATS' own headers, of key-value buckets and of streams.
const (
	headerOperation = "KV-Operation" // in a message that ends an entry
	operationDelete = "DEL"
	operationPurge  = "PURGE"
	headerMarker    = "Nats-Marker-Reason" // a server left the message in place of others that it removed
	headerSize      = "Nats-Msg-Size"      // of the body, in bytes, if only headers are requested
)

// message is one version in the stream.
type message struct {
	Revision uint64
	Header   nats.Header
	Body     []byte
	Whole    bool      // Body is present, not only the headers
	At       time.Time // when the stream received it
}

// latestTime bounds the times in headers, in microseconds since 1970: the year 2106. No write could
// beat one with a later time: seconds in a float64 are then too coarse for a tick.
const latestTime = 1<<32*1_000_000 - 1

// maxLifetime is practically forever; adding a longer one would overflow.
const maxLifetime = time.Duration(1 << 62)

// maxHost bounds the name of a writer's host, in bytes: the index stores it.
const maxHost = 64

// isHost reports whether a name is valid for a host.
func isHost(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return s != "" && len(s) <= maxHost && strings.Trim(s, allowed) == ""
}

// subjectPrefix returns the prefix of the subjects of a bucket's entries.
func subjectPrefix(bucket string) string { return "$KV." + bucket + "." }

func streamName(bucket string) string { return "KV_" + bucket }

// subjectOf returns the subject of an entry. BotWire allows no "=" in names.
func subjectOf(bucket string, id journal.ID) string {
	return subjectPrefix(bucket) + id.Namespace + "." + strings.ReplaceAll(id.Key, ".", "=")
}

// idOf returns the entry of a subject; ok is false if the subject is not an entry's.
func idOf(bucket, subject string) (id journal.ID, ok bool) {
	names, ok := strings.CutPrefix(subject, subjectPrefix(bucket))
	if !ok {
		return journal.ID{}, false
	}
	namespace, key, ok := strings.Cut(names, ".")
	if !ok || strings.Contains(key, ".") {
		return journal.ID{}, false
	}
	key = strings.ReplaceAll(key, "=", ".")
	if wire.CheckEntry(namespace, key) != nil {
		return journal.ID{}, false
	}
	return journal.ID{Namespace: namespace, Key: key}, true
}

// becomes returns the version that a proposal would become, without its revision.
func becomes(p upstream.Proposal) upstream.Version {
	v := upstream.Version{
		Deleted: p.Op == journal.Delete, WrittenAt: seconds(upstream.Micros(p.WrittenAt)), Writer: p.Writer, Author: p.Author,
	}
	v.CreatedAt = v.WrittenAt
	if p.Over.Present() {
		v.CreatedAt = p.Over.CreatedAt
	}
	if !v.Deleted {
		v.Value, v.ListBytes = p.Value, p.ListBytes
	}
	return v
}

func encode(subject string, v upstream.Version) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header.Set(headerCreated, strconv.FormatInt(upstream.Micros(v.CreatedAt), 10))
	m.Header.Set(headerWritten, strconv.FormatInt(upstream.Micros(v.WrittenAt), 10))
	if v.Writer.Host != "" {
		m.Header.Set(headerHost, v.Writer.Host)
	}
	if v.Writer.Seq != 0 {
		m.Header.Set(headerSeq, strconv.FormatUint(v.Writer.Seq, 10))
	}
	if v.Author != "" {
		m.Header.Set(wire.AuthorHeader, v.Author)
	}
	if v.Deleted {
		m.Header.Set(headerOperation, operationDelete)
		return m
	}
	m.Header.Set(headerBytes, strconv.Itoa(v.ListBytes))
	m.Data = []byte(v.Value)
	return m
}

// decode returns the version in a message, under this host's present name if it is its own.
func (e *Engine) decode(m message) upstream.Version {
	v := decode(m)
	v.Writer = e.opts.Earlier.Of(v.Writer, e.opts.Host)
	return v
}

// decode returns the version in a message. Another program's message lacks this package's headers: both
// times are then the time when the stream received it, and the writer is unknown.
func decode(m message) upstream.Version {
	v := upstream.Version{Revision: m.Revision, Deleted: ends(m.Header)}
	received := max(0, min(m.At.UnixMicro(), latestTime))
	v.WrittenAt = seconds(timeIn(m.Header, headerWritten, received))
	v.CreatedAt = seconds(timeIn(m.Header, headerCreated, upstream.Micros(v.WrittenAt)))
	if host := m.Header.Get(headerHost); isHost(host) {
		v.Writer.Host = host
	}
	v.Writer.Seq, _ = strconv.ParseUint(m.Header.Get(headerSeq), 10, 64)
	v.Author = wire.Author(m.Header.Get(wire.AuthorHeader))
	if v.Deleted {
		return v
	}
	if m.Whole {
		v.Value = strings.ToValidUTF8(string(m.Body), "\uFFFD")
	}
	v.ListBytes = sizeIn(m, v.Value)
	return v
}

// ends reports whether a message ends its entry.
func ends(h nats.Header) bool {
	operation := h.Get(headerOperation)
	return operation == operationDelete || operation == operationPurge || h.Get(headerMarker) != ""
}

// lifetime returns a message's TTL; ends is false if it has none.
func lifetime(h nats.Header) (stays time.Duration, ends bool) {
	text := h.Get(jetstream.MsgTTLHeader)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, n > 0
	}
	stays, err := time.ParseDuration(text)
	return min(stays, maxLifetime), err == nil && stays > 0
}

// sizeIn returns the size that a listing gives. For another program's message without its body, it
// returns the number of bytes.
func sizeIn(m message, value string) int {
	if n, err := strconv.Atoi(m.Header.Get(headerBytes)); err == nil && n >= 0 {
		return min(n, math.MaxInt32) // as in the index
	}
	if m.Whole {
		return wire.ListBytes(value)
	}
	n, _ := strconv.Atoi(m.Header.Get(headerSize))
	return max(n, 0)
}

// timeIn returns a header's time in microseconds, or the value of otherwise if the header has no valid
// time.
func timeIn(h nats.Header, name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(h.Get(name), 10, 64)
	if err != nil || n < 0 || n > latestTime {
		return otherwise
	}
	return n
}

func seconds(micros int64) float64 { return float64(micros) / 1e6 }
