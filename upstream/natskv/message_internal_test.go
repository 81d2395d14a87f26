package natskv

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

func TestSubjectsAreEntries(t *testing.T) {
	for _, id := range []journal.ID{
		{Namespace: "ns", Key: "key"}, {Namespace: "_-A9", Key: "."}, {Namespace: "n", Key: ".."}, {Namespace: "n", Key: "a.b-c_d."},
		{Namespace: strings.Repeat("n", 64), Key: strings.Repeat(".", 128)},
	} {
		subject := subjectOf("memory", id)
		if parts := strings.Split(subject, "."); len(parts) != 4 || strings.ContainsAny(subject, " *>") {
			t.Errorf("%s has the subject %s", id, subject)
		}
		if got, ok := idOf("memory", subject); !ok || got != id {
			t.Errorf("%s comes back as %s, %v", id, got, ok)
		}
	}
	for _, subject := range []string{
		"", "$KV.memory.", "$KV.memory.ns", "$KV.memory.ns.", "$KV.memory..k", "$KV.memory.ns.a.b", "$KV.other.ns.k", "$KV.memory.n=s.k",
		"$KV.memory.ns.a/b", "$KV.memory.ns." + strings.Repeat("k", 129), "$JS.memory.ns.k",
	} {
		if id, ok := idOf("memory", subject); ok {
			t.Errorf("%q is the entry %s", subject, id)
		}
	}
}

func TestAMessageWithoutHeadersIsAnotherPrograms(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_123_456)
	m := message{Revision: 7, Body: []byte("a\xffb\x00c"), Whole: true, At: at}
	want := upstream.Version{Revision: 7, Value: "a\uFFFDb\x00c", ListBytes: 3, CreatedAt: 1_700_000_000.123456, WrittenAt: 1_700_000_000.123456}
	if diff := cmp.Diff(want, decode(m)); diff != "" {
		t.Error(diff)
	}
	m = message{Revision: 7, Header: nats.Header{"Nats-Msg-Size": {"5"}}, At: at}
	want.Value, want.ListBytes = "", 5
	if diff := cmp.Diff(want, decode(m)); diff != "" {
		t.Error(diff)
	}
	for _, h := range []nats.Header{{"KV-Operation": {"DEL"}}, {"KV-Operation": {"PURGE"}}, {"Nats-Marker-Reason": {"MaxAge"}}} {
		m.Header = h
		if v := decode(m); !v.Deleted || v.Present() || v.ListBytes != 0 || v.WrittenAt != want.WrittenAt {
			t.Errorf("%v is %+v", h, v)
		}
	}
}

func TestAWriteInTheDistantFutureIsTakenForAnotherPrograms(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_000_000)
	for _, text := range []string{"9223372036854775807", "-1", "soon", "", "1e9", "NaN", "4294967296000000"} {
		v := decode(message{Revision: 1, Header: nats.Header{headerWritten: {text}, headerCreated: {text}}, At: at})
		if v.WrittenAt != 1_700_000_000 || v.CreatedAt != 1_700_000_000 {
			t.Errorf("the time %q is read as %v and %v", text, v.WrittenAt, v.CreatedAt)
		}
	}
}

// The times of two consecutive writes differ, however late the first one is.
func TestATickIsNotLostInALateTime(t *testing.T) {
	for at := int64(latestTime); at > latestTime-1000; at-- {
		if next := upstream.Micros(seconds(at) + 1e-6); next != at+1 {
			t.Fatalf("a tick after %d is %d", at, next)
		}
	}
}

func TestAMessageMayEndByItself(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "never": 0, "-1": 0, "0": 0, "-5s": 0, "soon": 0, "5": 5 * time.Second, "1h0m0s": time.Hour, "1.5s": 1500 * time.Millisecond, "2562047h47m16s": maxLifetime,
	} {
		stays, ends := lifetime(nats.Header{"Nats-Ttl": {"9"}, "Nats-TTL": {text}})
		if ends != (want != 0) || ends && stays != want {
			t.Errorf("%q: %v, %v", text, stays, ends)
		}
	}
}

// The index keeps the names of hosts: long ones must not fill it.
func TestAHostsNameIsShort(t *testing.T) {
	for name, want := range map[string]string{
		"h1": "h1", strings.Repeat("h", maxHost): strings.Repeat("h", maxHost), strings.Repeat("h", maxHost+1): "", "a b": "", "\x1b[2J": "",
	} {
		if v := decode(message{Revision: 1, Header: nats.Header{headerHost: {name}}}); v.Writer.Host != want || v.WrittenAt != 0 {
			t.Errorf("the host %q is read as %+v", name, v)
		}
	}
}

// contract 19: a version that this host has written under an earlier name is its own.
func TestAnEarlierName(t *testing.T) {
	e := &Engine{opts: Options{Host: "now", Earlier: upstream.Earlier{"then": 7}}}
	for seq, want := range map[string]string{"7": "now", "8": "then"} {
		if v := e.decode(message{Revision: 1, Header: nats.Header{headerHost: {"then"}, headerSeq: {seq}}}); v.Writer.Host != want {
			t.Errorf("number %s is read as %+v", seq, v.Writer)
		}
	}
}

func FuzzAVersionComesBack(f *testing.F) {
	f.Add("value", "host", "author", uint64(7), int64(1_700_000_000_123_456), int64(1_600_000_000_000_001), true, false)
	f.Add("a\x00\U0001F600", "", "Müller\n", uint64(0), int64(0), int64(latestTime), false, true)
	f.Fuzz(func(t *testing.T, value, host, author string, seq uint64, written, created int64, over, deleted bool) {
		written, created = clamp(written), clamp(created)
		value = strings.ToValidUTF8(value, "?")
		if !isHost(host) {
			host = ""
		}
		p := upstream.Proposal{
			ID: journal.ID{Namespace: "ns", Key: "k"}, Op: journal.Put, Value: value, ListBytes: wire.ListBytes(value),
			WrittenAt: seconds(written), Writer: upstream.Writer{Host: host, Seq: seq}, Author: wire.Author(author),
		}
		if deleted {
			p.Op, p.Value, p.ListBytes = journal.Delete, "", 0
		}
		if over {
			p.Over = upstream.Version{Revision: 1, CreatedAt: seconds(created)}
		}
		want := becomes(p)
		m := encode(subjectOf("memory", p.ID), want)
		got := decode(message{Header: m.Header, Body: m.Data, Whole: true, At: time.UnixMicro(1)})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		want.Value = ""
		if diff := cmp.Diff(want, decode(message{Header: m.Header, At: time.UnixMicro(1)})); diff != "" {
			t.Errorf("without its body: %s", diff)
		}
	})
}

func clamp(micros int64) int64 { return max(0, min(micros, latestTime)) }

func FuzzAnyMessageIsDecoded(f *testing.F) {
	f.Add("$KV.memory.ns.k", "12", "x", "-5", "PURGE", []byte("v\xff"), true)
	f.Fuzz(func(t *testing.T, subject, written, created, size, operation string, body []byte, whole bool) {
		if id, ok := idOf("memory", subject); ok && subjectOf("memory", id) != subject {
			t.Errorf("%q is the entry %s", subject, id)
		}
		v := decode(message{Revision: 1, Whole: whole, Body: body, At: time.UnixMicro(5), Header: nats.Header{
			headerWritten: {written}, headerCreated: {created}, headerBytes: {size}, headerSize: {size}, headerOperation: {operation},
		}})
		if v.ListBytes < 0 || v.WrittenAt < 0 || v.CreatedAt < 0 || upstream.Micros(v.WrittenAt) > latestTime || !strings.HasPrefix(v.Value, strings.ToValidUTF8(v.Value, "")) {
			t.Errorf("it is %+v", v)
		}
	})
}
