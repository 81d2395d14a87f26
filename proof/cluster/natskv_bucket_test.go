package cluster

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// asked asks an engine something, for the failure that it meets.
func asked(t *testing.T, e *natskv.Engine) error {
	t.Helper()
	_, err := e.Get(t.Context(), entry("k"))
	return err
}

func TestTheBucketIsMadeForDurableWrites(t *testing.T) {
	local := RunServer(t)
	js := admin(t, local.URL())
	forbidden := engineOf(t, "h1", []string{local.URL()}, func(o *natskv.Options) { o.Create = false })
	failed(t, asked(t, forbidden), upstream.Paused, "the bucket memory does not exist")

	var work sync.WaitGroup
	for i := range 4 { // all at once
		e := engineOf(t, "h"+strconv.Itoa(i), []string{local.URL()})
		work.Go(func() {
			if _, err := e.Get(t.Context(), entry("k")); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	c := streamConfig(t, js)
	if c.AllowDirect || c.Storage != jetstream.FileStorage || c.Discard != jetstream.DiscardNew || c.MaxMsgsPerSubject != 8 || c.MaxAge != 0 ||
		!c.DenyDelete || !c.AllowRollup || !c.AllowMsgTTL || c.Replicas != 1 {
		t.Errorf("the bucket is made as %+v", c)
	}
	until(t, func() bool { return asked(t, forbidden) == nil }) // it is taken all the same
	if _, err := js.KeyValue(t.Context(), "memory"); err != nil {
		t.Errorf("for other programs it is no key-value bucket: %v", err)
	}
}

func TestTooManyReplicasAreNamed(t *testing.T) {
	e := engineOf(t, "h1", []string{RunServer(t).URL()}, func(o *natskv.Options) { o.Replicas = 3 })
	until(t, func() bool { return e.State().Refused != "" }) // without a request
	failed(t, asked(t, e), upstream.Paused, "upstream.nats.replicas is 3")
	if why := e.State().Refused; !strings.Contains(why, "set upstream.nats.replicas: 1") {
		t.Errorf("the bucket is refused for %q", why)
	}
}

func TestABucketThatWouldLoseEntriesIsRefused(t *testing.T) {
	for _, c := range []struct {
		spoil func(*jetstream.StreamConfig)
		says  string
	}{
		{func(c *jetstream.StreamConfig) { c.AllowDirect = true }, "nats stream edit KV_memory --no-allow-direct"},
		{func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "in memory"},
		{func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max_age"},
		{func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, "--discard=new"},
		{func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true }, "discard_new_per_subject"},
		{func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "retention"},
		{func(c *jetstream.StreamConfig) { c.NoAck = true }, "no_ack"},
		{func(c *jetstream.StreamConfig) { c.Subjects = []string{"$KV.memory.ns.k"} }, "its subjects"},
	} {
		config := jetstream.StreamConfig{
			Name: "KV_memory", Subjects: []string{"$KV.memory.>"}, MaxMsgsPerSubject: 8, Discard: jetstream.DiscardNew,
			Storage: jetstream.FileStorage, AllowRollup: true, AllowMsgTTL: true,
		}
		c.spoil(&config)
		local := RunServer(t)
		if _, err := admin(t, local.URL()).CreateStream(t.Context(), config); err != nil {
			t.Fatalf("%s: %v", c.says, err)
		}
		e := engineOf(t, "h1", []string{local.URL()})
		failed(t, asked(t, e), upstream.Paused, c.says)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestABucketIsTakenOnceItIsMended(t *testing.T) {
	local := RunServer(t)
	js := admin(t, local.URL())
	kv := jetstream.KeyValueConfig{Bucket: "memory", History: 5, Storage: jetstream.FileStorage}
	if _, err := js.CreateKeyValue(t.Context(), kv); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var warnings strings.Builder
	e := engineOf(t, "h1", []string{local.URL()}, func(o *natskv.Options) {
		o.Replicas, o.Logger = 3, slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return warnings.Write(line)
		}), nil))
	})
	failed(t, asked(t, e), upstream.Paused, "allow_direct")
	config := streamConfig(t, js)
	config.AllowDirect = false
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return asked(t, e) == nil })
	mu.Lock()
	defer mu.Unlock()
	if text := warnings.String(); !strings.Contains(text, "--replicas=3") || !strings.Contains(text, "allow_msg_ttl") {
		t.Errorf("the warnings are %s", text)
	}
}

// A bucket whose settings somebody spoils takes no more writes that it may lose.
func TestABucketIsRefusedOnceItIsSpoilt(t *testing.T) {
	t.Parallel()
	local := RunServer(t)
	js := admin(t, local.URL())
	e := engineOf(t, "h1", []string{local.URL()})
	if err := wrote(t.Context(), e, "k", "v"); err != nil {
		t.Fatal(err)
	}
	config := streamConfig(t, js)
	config.MaxAge = time.Hour
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	var err error
	until(t, func() bool { err = wrote(t.Context(), e, "k", "v"); return err != nil })
	failed(t, err, upstream.Paused, "max_age")
	config.MaxAge = 0
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return wrote(t.Context(), e, "k", "v") == nil })
}

func TestABucketThatIsGoneIsNotMadeAgain(t *testing.T) {
	local := RunServer(t)
	js := admin(t, local.URL())
	e := engineOf(t, "h1", []string{local.URL()})
	swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	if err := js.DeleteStream(t.Context(), "KV_memory"); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		var f *upstream.Error
		return errors.As(asked(t, e), &f) && f.Verdict == upstream.Paused && strings.Contains(f.Reason, "the bucket memory is gone")
	})
	if _, err := js.Stream(t.Context(), "KV_memory"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket was made again: %v", err)
	}
}
