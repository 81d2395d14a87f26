package drill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/drill"
	"github.com/botwired/botwired/internal/faulty"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// daemon is a daemon without a disk. Its upstream gets everything at once while it is healthy. The
// daemon has at most one defect.
type daemon struct {
	defect string

	mu       sync.Mutex
	values   map[string]string // by path
	first    map[string]string // the first value of each
	upstream map[string]string
	waiting  map[string]uint64 // the newest write to each path that upstream lacks
	receipts map[uint64]*api.Receipt
	last     uint64
	fault    faulty.Mode
	killed   bool
}

func newDaemon(defect string) *daemon {
	return &daemon{
		defect: defect, values: map[string]string{}, first: map[string]string{}, upstream: map[string]string{},
		waiting: map[string]uint64{}, receipts: map[uint64]*api.Receipt{}, fault: faulty.Healthy,
	}
}

func answer(status int, doc any) *http.Response {
	body, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}
}

// RoundTrip answers the drill's requests.
func (d *daemon) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, method, target := r.Context(), r.Method, r.URL.RequestURI()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if number, ok := strings.CutPrefix(target, "/_botwired/receipts/"); ok {
		return d.receipt(ctx, number)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.killed && d.defect == "dies later" && method != http.MethodGet && d.fault == faulty.Healthy {
		return nil, errors.New("connection refused")
	}
	path, _, _ := strings.Cut(target, "?")
	failing := d.fault != faulty.Healthy
	switch {
	case method != http.MethodGet:
		return d.write(method, path, body), nil
	case strings.Count(path, "/") == 2:
		return d.list(path), nil
	case strings.HasPrefix(path, "/memory/stranger"):
		if d.defect == "makes an absence up" {
			return answer(404, nil), nil
		}
		a := answer(503, nil)
		a.Header.Set("Retry-After", "1")
		return a, nil
	case failing && d.defect == "forgets in an outage":
		return answer(503, map[string]string{"detail": "upstream is away"}), nil
	case failing && d.defect == "goes back" && d.values[path] != "":
		return answer(200, map[string]string{"value": d.first[path]}), nil
	}
	value, ok := d.values[path]
	if !ok {
		return answer(404, nil), nil
	}
	return answer(200, map[string]string{"value": value}), nil
}

func (d *daemon) list(path string) *http.Response {
	var keys []map[string]string
	for p := range d.values {
		if key, ok := strings.CutPrefix(p, path+"/"); ok && d.defect != "lists nothing" {
			keys = append(keys, map[string]string{"key": key})
		}
	}
	return answer(200, map[string]any{"keys": keys})
}

func (d *daemon) receipt(ctx context.Context, number string) (*http.Response, error) {
	number, wait, _ := strings.Cut(number, "?wait=")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	r := d.receipts[seq]
	if r == nil {
		d.mu.Unlock()
		return answer(404, nil), nil
	}
	told := *r
	d.mu.Unlock()
	if most, err := time.ParseDuration(wait); err == nil && told.State == "pending" {
		select {
		case <-time.After(most):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return answer(200, told), nil
}

func (d *daemon) write(method, path string, body []byte) *http.Response {
	var doc struct{ Value string }
	if err := json.Unmarshal(body, &doc); method == http.MethodPut && err != nil {
		return answer(422, nil)
	}
	_, there := d.values[path]
	switch {
	case method == http.MethodDelete && !there:
		return answer(404, nil)
	case d.defect == "refuses in an outage" && d.fault != faulty.Healthy:
		return answer(503, map[string]string{"detail": "no"})
	case method == http.MethodDelete:
		delete(d.values, path)
	default:
		d.values[path] = doc.Value
		if !there {
			d.first[path] = doc.Value
		}
	}
	d.last++
	seq := d.last
	parts := strings.Split(path, "/")
	if d.defect != "loses receipts" || seq%10 != 0 {
		d.receipts[seq] = &api.Receipt{Seq: seq, Namespace: parts[2], Key: parts[3], Op: strings.ToLower(method), State: "pending"}
	}
	if old, ok := d.waiting[path]; ok && d.receipts[old] != nil {
		d.receipts[old].State, d.receipts[old].By = "superseded", &seq
	}
	d.waiting[path] = seq
	if d.fault == faulty.Healthy || d.fault == faulty.Lies && d.defect == "believes lies" {
		d.settle(path)
	}
	a := answer(200, nil)
	a.Header.Set("Botwired-Write", fmt.Sprintf("pending; seq=%d", seq))
	return a
}

// settle sends the newest write to a path upstream, unless the defect is to lie about it.
func (d *daemon) settle(path string) {
	seq := d.waiting[path]
	delete(d.waiting, path)
	if d.fault == faulty.Healthy {
		if value, ok := d.values[path]; ok {
			d.upstream[path] = value
		} else {
			delete(d.upstream, path)
		}
	}
	r := d.receipts[seq]
	switch {
	case r == nil:
	case d.defect == "gives up" && seq%10 == 0:
		r.State, r.Reason = "dead", "tired"
	case d.defect == "never ends" && seq%10 == 0:
	default:
		r.State = "settled"
	}
}

func (d *daemon) Be(f faulty.Mode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault = f; f == faulty.Healthy {
		for path := range d.waiting {
			d.settle(path)
		}
	}
	return nil
}

func (d *daemon) Read(_ context.Context, namespace, key string) (value string, found bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	value, found = d.upstream["/memory/"+namespace+"/"+key]
	return value, found, nil
}

func (d *daemon) Plant(context.Context, string, string, string) error { return nil }

// Restart forgets the newest writes if that is the defect.
func (d *daemon) Restart(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.defect == "loses writes in a crash" {
		for path, seq := range d.waiting {
			delete(d.receipts, seq)
			delete(d.waiting, path)
			delete(d.values, path)
		}
	}
	if d.killed = true; d.defect == "does not come back" {
		return errors.New("it ended with 1")
	}
	return nil
}

func options(d *daemon) drill.Options {
	return drill.Options{
		Rig: d, Daemon: d, Lasts: 8 * time.Second, Gap: 50 * time.Millisecond, Seed: 3, Progress: func(string) {},
	}
}

func TestSoundDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(newDaemon(""))
		var told []string
		o.Progress = func(line string) {
			what, _, _ := strings.Cut(line, ":")
			told = append(told, what)
		}
		a, err := drill.Run(t.Context(), o)
		if err != nil || !a.OK || a.Acknowledged < 50 || a.Acknowledged != a.Settled+a.Superseded || a.Superseded == 0 || a.Compared != 9 {
			t.Errorf("%v: %+v", err, a)
		}
		want := []string{
			"1 of 8, healthy", "2 of 8, times out", "3 of 8, cuts connections", "4 of 8, away", "5 of 8, throttles", "6 of 8, lies",
			"7 of 8, killed", "8 of 8, healthy again", "upstream is well again, and the drill waits for what is pending",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
	})
}

// The drill finds each defect, and names the broken point of the contract.
func TestDefects(t *testing.T) {
	for defect, contract := range map[string]int{
		"forgets in an outage": 6, "goes back": 6, "lists nothing": 10, "makes an absence up": 9, "refuses in an outage": 1,
		"believes lies": 13, "gives up": 15, "never ends": 18, "loses receipts": 1, "loses writes in a crash": 1,
	} {
		t.Run(defect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := drill.Run(t.Context(), options(newDaemon(defect)))
				if err != nil || a.OK || len(a.Findings) == 0 {
					t.Fatalf("%v: %+v", err, a)
				}
				if !slices.ContainsFunc(a.Findings, func(f drill.Finding) bool { return f.Contract == contract && len(f.Text) > 0 }) {
					t.Errorf("no finding of contract %d: %+v", contract, a.Findings)
				}
				if loses := strings.HasPrefix(defect, "loses"); a.Lost > 0 != loses {
					t.Errorf("%+v", a)
				}
			})
		})
	}
}

// With the same seed, the clients do the same.
func TestSeed(t *testing.T) {
	var first int
	for i := range 2 {
		synctest.Test(t, func(t *testing.T) {
			a, err := drill.Run(t.Context(), options(newDaemon("")))
			if i == 0 {
				first = a.Acknowledged
			}
			if err != nil || a.Acknowledged != first {
				t.Errorf("%v: %d, and the first time %d", err, a.Acknowledged, first)
			}
		})
	}
}

// A drill that fails or is canceled leaves upstream healthy.
func TestDrillThatEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon("")
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if _, err := drill.Run(ctx, options(d)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if d.fault != faulty.Healthy {
			t.Errorf("upstream %s", d.fault)
		}
		for defect, want := range map[string]string{
			"does not come back": "killed: it ended with 1",
			"dies later":         "healthy again: ",
		} {
			if _, err := drill.Run(t.Context(), options(newDaemon(defect))); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v", defect, err)
			}
		}
	})
}
