package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/drill"
	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/journal"
)

var drills = flag.Int("drills", 2, "how many drills are played")

// drilled is a simulated daemon under drill, with an upstream that fails as told. A kill is a
// power cut: what was not synced is lost.
type drilled struct {
	up    *service
	front *faulty.Server

	mu       sync.Mutex
	listener *pipe.Listener // of front; the last one
	life     *life
	lives    int
	with     settings
}

func newDrilled(t *testing.T, adjust func(*settings)) *drilled {
	with := usual
	with.backoffMax, with.lists = 5*time.Second, true
	adjust(&with)
	d := &drilled{up: newServiceOf(with), with: with}
	d.up.prompt = false
	d.up.veil.add("drill")
	front, err := faulty.New(faulty.Options{
		Service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.up.ServeHTTP(w, r.WithContext(d.up.stamp(r.Context(), nil)))
		}),
		MaxDelay: requestTimeout, Rand: rand.New(rand.NewPCG(1, 1)),
		Listen: func() (net.Listener, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.listener = pipe.Listen()
			return d.up.veil.watched(d.listener), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.front = front
	d.up.dialing = d.dial
	if err := d.start(vfs.NewCrashableMem()); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *drilled) dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	l := d.listener
	d.mu.Unlock()
	conn, err := l.Dial(ctx)
	if errors.Is(err, net.ErrClosed) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return conn, err
}

// start starts the next life.
func (d *drilled) start(fs *vfs.MemFS) (err error) {
	l := &life{fs: fs, history: &history{}, seed: uint64(d.lives), virtual: true, ended: make(chan struct{})}
	if l.node, err = open(l.disk(), d.up, d.with); err != nil {
		return fmt.Errorf("start %d: %w", d.lives+1, err)
	}
	l.node.start()
	l.serving.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life, d.lives = l, d.lives+1
	return nil
}

func (d *drilled) present() *life {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life
}

// Restart has the daemon lose its power, and starts it again.
func (d *drilled) Restart(context.Context) error {
	l := d.present()
	l.crash()
	if err := l.node.end(); err != nil {
		return err
	}
	return d.start(l.clone)
}

// RoundTrip returns an answer only if it came before the daemon lost its power.
func (d *drilled) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	l := d.present()
	if !l.serving.Load() {
		return nil, errors.New("the daemon is away")
	}
	w := l.node.do(r.Method, r.URL.RequestURI(), string(body))
	if !l.serving.Load() {
		return nil, errors.New("the daemon has lost its power")
	}
	return w.Result(), nil
}

func (d *drilled) Be(m faulty.Mode) error { return d.front.Be(m) }

func (d *drilled) Plant(_ context.Context, namespace, key, value string) error {
	d.up.mu.Lock()
	defer d.up.mu.Unlock()
	d.up.veil.add(namespace)
	id := journal.ID{Namespace: namespace, Key: key}
	d.up.set(id, value, d.up.veil.seal(id, value), away)
	return nil
}

func (d *drilled) Read(_ context.Context, namespace, key string) (value string, found bool, err error) {
	value, found = d.up.snapshot()[journal.ID{Namespace: namespace, Key: key}]
	return value, found, nil
}

func (d *drilled) close() error {
	err := errors.Join(d.present().node.end(), d.front.Close(), d.up.violation())
	d.up.close()
	return err
}

// The drill finds nothing wrong with the daemon, and finds what is wrong with one of which a
// guard was taken out: see proof/mutants. Every other daemon seals.
func TestDrill(t *testing.T) {
	for seed := range uint64(*drills) {
		synctest.Test(t, func(t *testing.T) {
			d := newDrilled(t, []func(*settings){func(*settings) {}, seals}[seed%2])
			audit, err := drill.Run(t.Context(), drill.Options{
				Rig: d, Daemon: d, Lasts: 4 * time.Minute, Gap: 1200 * time.Millisecond, Seed: seed, Progress: func(string) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			wantBalanced(t, audit)
			if t.Failed() {
				t.Logf("seed %d; upstream was asked:\n  %s", seed, strings.Join(d.up.log[max(0, len(d.up.log)-100):], "\n  "))
			}
			if err := d.close(); err != nil {
				t.Error("closing: ", err)
			}
		})
	}
}

// wantBalanced also fails if the drill has tested nothing.
func wantBalanced(t *testing.T, a *drill.Audit) {
	t.Helper()
	for _, f := range a.Findings {
		t.Errorf("contract %d, %s, %s/%s: %s", f.Contract, f.Phase, f.Namespace, f.Key, f.Text)
	}
	if a.Superseded == 0 || a.Settled == 0 {
		t.Errorf("%+v", a)
	}
	for _, p := range a.Phases {
		if p.Acknowledged == 0 || p.Reads == 0 || !strings.HasPrefix(p.Name, "healthy") && p.Pending == 0 {
			t.Errorf("nothing happened in the phase %+v", p)
		}
	}
}
