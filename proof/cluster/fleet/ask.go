package fleet

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/proof/cluster/check"
)

const (
	// answerWithin bounds how long a daemon may take to answer: longer than upstream ever takes.
	answerWithin = time.Minute
	// connections bounds the idle connections to a daemon, which has many callers at once.
	connections = 64
)

// At returns a daemon, or another server of the same API, that somebody else has started and that wants a
// token, or none: of its methods, only those that ask over HTTP may be called.
func At(url, token string) *Daemon {
	address := strings.TrimPrefix(url, "http://")
	transport := api.Transport(address)
	transport.MaxIdleConnsPerHost = connections
	return &Daemon{
		transport: transport,
		client:    api.NewClient(api.Options{Listen: address, Token: token, Transport: transport, FirstByte: answerWithin}),
	}
}

// Put writes an entry, and returns the write's number.
func (d *Daemon) Put(ctx context.Context, e check.Entry, value string) (seq uint64, err error) {
	return d.client.Put(ctx, e.Namespace, e.Key, value)
}

// Delete deletes an entry. The number is 0 if there was none.
func (d *Daemon) Delete(ctx context.Context, e check.Entry) (seq uint64, err error) {
	seq, err = d.client.Delete(ctx, e.Namespace, e.Key)
	if api.IsRefused(err, http.StatusNotFound) {
		return 0, nil
	}
	return seq, err
}

// Get reads an entry.
func (d *Daemon) Get(ctx context.Context, e check.Entry) (s check.State, found bool, err error) {
	v, err := d.client.Get(ctx, e.Namespace, e.Key)
	if api.IsRefused(err, http.StatusNotFound) {
		return s, false, nil
	}
	return check.State{Value: v.Value, UpdatedAt: micros(v.UpdatedAt)}, err == nil, err
}

// micros is a time in microseconds, of Unix seconds.
func micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }

// List lists a namespace: the times of its keys, which are limit at most.
func (d *Daemon) List(ctx context.Context, namespace string, limit int) (map[string]int64, error) {
	var doc api.Listing
	r := api.Request{Path: api.Memory(namespace), Query: url.Values{"limit": {strconv.Itoa(limit)}}}
	if _, err := d.client.Read(ctx, r, &doc); err != nil {
		return nil, err
	}
	keys := make(map[string]int64)
	for _, k := range doc.Keys {
		keys[k.Key] = micros(k.UpdatedAt)
	}
	return keys, nil
}

// Pending returns how many writes are not settled.
func (d *Daemon) Pending(ctx context.Context) (int, error) {
	s, err := d.client.Status(ctx)
	if err != nil {
		return 0, err
	}
	return s.Pending, nil
}

// Flush waits until all that was acknowledged is settled or dead, for a limited time.
func (d *Daemon) Flush(ctx context.Context, limit time.Duration) error {
	result, err := d.client.Flush(ctx, "", limit, true)
	if err == nil && result.Pending > 0 {
		err = fmt.Errorf("%d writes are pending after %s", result.Pending, limit)
	}
	return err
}

// Status asks how the daemon and its upstream are.
func (d *Daemon) Status(ctx context.Context) (*api.Status, error) { return d.client.Status(ctx) }

// Restore has the bucket get back what it has lost, as "botwired restore --all" does. It does not wait for that.
func (d *Daemon) Restore(ctx context.Context) error {
	_, err := d.client.Do(ctx, api.Request{Method: http.MethodPost, Path: api.Surface("restore"), Query: url.Values{"namespace": {"*"}}})
	return err
}

// Losses returns the namespaces that have data loss by a status.
func Losses(s *api.Status) (names []string) {
	for _, n := range s.Namespaces {
		if n.DataLoss != nil {
			names = append(names, n.Namespace)
		}
	}
	return names
}

// Receipt says what has become of a write. The zero receipt is of one that has none.
func (d *Daemon) Receipt(ctx context.Context, seq uint64) (check.Receipt, error) {
	got, err := d.client.Receipt(ctx, seq)
	if api.IsRefused(err, http.StatusNotFound) {
		return check.Receipt{}, nil
	}
	r := check.Receipt{State: got.State, WrittenAt: micros(got.WrittenAt)}
	if got.By != nil {
		r.By = *got.By
	}
	return r, err
}

// Lost returns all states that have lost a conflict.
func (d *Daemon) Lost(ctx context.Context) (all []check.Lost, err error) {
	lost, err := d.client.Lost(ctx, "")
	for i := range lost {
		l := &lost[i]
		all = append(all, check.Lost{
			Own: l.Here, Seq: *l.Seq, Entry: check.Entry{Namespace: l.Namespace, Key: l.Key}, WrittenAt: micros(l.UpdatedAt),
		})
	}
	return all, err
}
