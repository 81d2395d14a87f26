package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	testBucket = "trial"
	testStream = "KV_" + testBucket
	// patience ends a hang: a busy machine is slow.
	patience = 2 * time.Minute
)

// threeServers starts a cluster of three with a bucket on all of them.
func threeServers(t *testing.T) (*Servers, jetstream.KeyValue) {
	t.Helper()
	s, err := Start(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, s.bucket(t)
}

// bucket makes the bucket as soon as the servers have found each other.
func (s *Servers) bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	js, config := s.natsClient(t), jetstream.KeyValueConfig{Bucket: testBucket, Replicas: 3}
	kv, err := js.CreateKeyValue(t.Context(), config)
	for until := time.Now().Add(patience); err != nil && time.Now().Before(until); {
		time.Sleep(pause)
		kv, err = js.CreateKeyValue(t.Context(), config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// natsClient connects a client over links of its own.
func (s *Servers) natsClient(t *testing.T) jetstream.JetStream {
	t.Helper()
	c, err := s.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.connect(t)
}

func (c *Client) connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(pause), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// put writes until a majority takes it.
func put(t *testing.T, kv jetstream.KeyValue, key, value string) {
	t.Helper()
	for until := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := kv.PutString(ctx, key, value)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("put %s: %v", key, err)
		}
		time.Sleep(pause)
	}
}

// expect reads until the entry has the value.
func expect(t *testing.T, kv jetstream.KeyValue, key, value string) {
	t.Helper()
	for until := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		entry, err := kv.Get(ctx, key)
		cancel()
		if err == nil && string(entry.Value()) == value {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("get %s: %v, want %s", key, err, value)
		}
		time.Sleep(pause)
	}
}

func (s *Servers) leader(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	i, err := s.Leader(ctx, testStream)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// A killed leader is replaced, and an acknowledged write stays; so it does when all are killed.
func TestServersAreKilled(t *testing.T) {
	t.Parallel()
	s, kv := threeServers(t)
	put(t, kv, "a", "1")
	if err := s.All[s.leader(t)].Kill(); err != nil {
		t.Fatal(err)
	}
	put(t, kv, "b", "2")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"a": "1", "b": "2"} {
		expect(t, kv, key, value)
	}
}

// Two of three go on without the third. It catches up, and its disk may be lost.
func TestAServerIsParted(t *testing.T) {
	t.Parallel()
	s, kv := threeServers(t)
	put(t, kv, "a", "1")
	parted := s.leader(t)
	c, err := s.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Part(parted)
	c.Part(parted)
	js := c.connect(t)
	others, err := js.KeyValue(t.Context(), testBucket)
	for until := time.Now().Add(patience); err != nil && time.Now().Before(until); {
		time.Sleep(pause)
		others, err = js.KeyValue(t.Context(), testBucket)
	}
	if err != nil {
		t.Fatal(err)
	}
	put(t, others, "b", "2")
	s.Heal()
	c.Heal()
	expect(t, kv, "b", "2")
	lost := s.All[(parted+1)%3]
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := lost.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := lost.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Healthy(t.Context()); err != nil { // the copies have caught up
		t.Fatal(err)
	}
	for i := range 3 {
		if i != (parted+1)%3 {
			if err := s.All[i].Kill(); err != nil {
				t.Fatal(err)
			}
			if err := s.All[i].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 10 {
		put(t, kv, fmt.Sprint("c", i), "3")
	}
	expect(t, kv, "a", "1")
}

// A server that hangs keeps its connections. Others take over from it.
func TestAServerHangs(t *testing.T) {
	t.Parallel()
	s, kv := threeServers(t)
	hung := s.All[s.leader(t)]
	if err := hung.Hang(); err != nil {
		t.Fatal(err)
	}
	put(t, kv, "a", "1")
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
	expect(t, kv, "a", "1")
}

// A link delivers the bytes of the time of its cut when it is whole again.
func TestALinkIsCut(t *testing.T) {
	t.Parallel()
	s, kv := threeServers(t)
	put(t, kv, "a", "1")
	c, err := s.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	js := c.connect(t)
	c.Part()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := js.KeyValue(ctx, testBucket); err == nil {
		t.Error("the bucket has answered over a link that is cut")
	}
	c.Heal()
	again, err := js.KeyValue(t.Context(), testBucket)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, again, "a", "1")
}
