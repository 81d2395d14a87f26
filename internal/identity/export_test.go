package identity

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// At sets the place and the clocks of a watch.
func (o Options) At(place func() Place, clocks *Clocks) Options {
	if place != nil {
		o.place = place
	}
	o.clock = func() reading {
		clocks.Lock()
		defer clocks.Unlock()
		return reading{wall: clocks.Wall, mono: clocks.Mono}
	}
	o.boot = func() (time.Duration, bool) {
		clocks.Lock()
		defer clocks.Unlock()
		return clocks.Boot, clocks.Boot != 0
	}
	return o
}

// Clocks are a test's own clocks.
type Clocks struct {
	sync.Mutex // for tests with concurrent readers
	Wall       time.Time
	Mono, Boot time.Duration
}

// Pass advances all clocks.
func (c *Clocks) Pass(d time.Duration) {
	c.Wall = c.Wall.Add(d)
	c.Mono += d
	if c.Boot != 0 {
		c.Boot += d
	}
}

// PlaceOf returns the place of a data directory on this machine.
func PlaceOf(dir string, files ...string) Place {
	return places{dir, append([]string{directory}, files...)}.now()
}

// Tick does what Run does every second.
func (w *Watch) Tick() {
	w.compareClocks(true)
	if w.dirty.Load() {
		w.save()
	}
}

// LookAround does what Run does every few seconds.
func (w *Watch) LookAround() { w.comparePlaces() }

// Restamp sets the record's stamp and its file's modification time, as if cp -a had copied an existing
// file.
func Restamp(dir string, at time.Time) error {
	r, _, err := read(dir)
	if err != nil {
		return err
	}
	r.Stamp = at
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, FileName)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return err
	}
	return os.Chtimes(name, at, at)
}
