package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/journal"
)

const (
	oldURL = "https://old.example"
	newURL = "https://new.example/base"
)

// binding is a data directory with a journal in it.
type binding struct {
	t   *testing.T
	dir string
	j   *journal.Journal
	log bytes.Buffer
}

func newBinding(t *testing.T) *binding {
	t.Helper()
	b := &binding{t: t, dir: t.TempDir()}
	var err error
	if b.j, err = journal.Open(journal.Options{Dir: filepath.Join(b.dir, journalDir)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.j.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// to binds the directory to a URL; movedFrom is upstream.moved_from.
func (b *binding) to(url, movedFrom string) error {
	c := config.Config{DataDir: b.dir, Upstream: config.Upstream{URL: url, MovedFrom: movedFrom}}
	return bindUpstream(&c, b.j, slog.New(slog.NewTextHandler(&b.log, nil)))
}

func (b *binding) wantBound(url string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "UPSTREAM"))
	if err != nil || string(text) != url+"\n" {
		b.t.Errorf("UPSTREAM is %q, %v; want %s", text, err, url)
	}
}

func (b *binding) wantRefused(err error, parts ...string) {
	b.t.Helper()
	if err == nil {
		b.t.Error("it was not refused")
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			b.t.Errorf("%q does not say %q", err, part)
		}
	}
}

func (b *binding) write(key string) journal.Write {
	b.t.Helper()
	w, err := b.j.Append(journal.NewWrite{ID: journal.ID{Namespace: "n", Key: key}, Op: journal.Put, Value: "v"})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// botwired gives nothing of one upstream to another: no pending write, no dead letter
// and no copy.
func TestDirectoryIsOfItsUpstream(t *testing.T) {
	for name, test := range map[string]struct {
		fill  func(*binding)
		parts []string
	}{
		"pending": {func(b *binding) { b.write("k"); b.write("k"); b.write("l") },
			[]string{"2 pending writes, 0 dead letters:", "flush with upstream.url = " + oldURL}},
		"dead letter": {func(b *binding) { check(b.t, b.j.DeadLetter(b.write("k"), journal.Failure{Status: 400, Reason: "no"})) },
			[]string{"0 pending writes, 1 dead letter: choose another data_dir"}},
		"copies": {func(b *binding) { check(b.t, b.j.Settle(b.write("k"))) }, []string{"copies of its entries: choose"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBinding(t)
			check(t, b.to(oldURL, ""))
			test.fill(b)
			check(t, b.to("https://OLD.example:443/", ""))
			for _, movedFrom := range []string{"", newURL, "https://older.example"} {
				b.wantRefused(b.to(newURL, movedFrom), append(test.parts, newURL, oldURL, "data_dir", "upstream.moved_from = "+oldURL)...)
				b.wantBound(oldURL)
			}
			check(t, b.to(newURL, oldURL+"/"))
			b.wantBound(newURL)
			if !strings.Contains(b.log.String(), "upstream has moved") {
				t.Errorf("log %q", &b.log)
			}
			check(t, b.to(newURL, oldURL)) // the setting may stay
			b.wantRefused(b.to("https://newest.example", oldURL), newURL)
			b.wantBound(newURL)
		})
	}
}

// An empty journal has nothing to protect.
func TestEmptyDirectoryTakesAnyUpstream(t *testing.T) {
	b := newBinding(t)
	for _, url := range []string{oldURL, newURL, "embedded"} {
		check(t, b.to(url, ""))
		b.wantBound(url)
	}
}

// A directory without a record, from an older botwired, is bound to the configured
// upstream.
func TestOlderDirectoryIsBound(t *testing.T) {
	b := newBinding(t)
	b.write("k")
	check(t, b.to(oldURL, ""))
	b.wantBound(oldURL)
	b.wantRefused(b.to(newURL, ""))
}

// A record that a power cut has left half written is no obstacle. A file that names no
// upstream does not count as a missing one.
func TestRecordThatCannotBeRead(t *testing.T) {
	b := newBinding(t)
	check(t, os.WriteFile(filepath.Join(b.dir, "UPSTREAM.new"), []byte("https://torn"), 0o600))
	check(t, b.to(oldURL, ""))
	b.wantBound(oldURL)
	b.write("k")
	for _, text := range []string{"", "\n", "two\nlines", "nul\x00", "httpz//127.0.0.1:1", "http://127.0.0.1:", "https://user@old.example", strings.Repeat("x", 5000)} {
		check(t, os.WriteFile(filepath.Join(b.dir, "UPSTREAM"), []byte(text), 0o600))
		b.wantRefused(b.to(oldURL, ""), "UPSTREAM names no upstream", "damaged", "write into "+filepath.Join(b.dir, "UPSTREAM"), "upstream.url")
	}
	check(t, os.WriteFile(filepath.Join(b.dir, "UPSTREAM"), []byte(strings.ToUpper(oldURL[:12])+oldURL[12:]+"/\n"), 0o600))
	check(t, b.to(oldURL, "")) // as a person may write it
}

// The entries of a trial on the embedded upstream are not botwire.dev's: the error says which service may have them.
func TestDirectoryOfATrial(t *testing.T) {
	b := newBinding(t)
	check(t, b.to(config.Embedded, ""))
	check(t, b.j.Settle(b.write("k")))
	b.wantRefused(b.to(newURL, ""), "choose another data_dir, or, if botwired selfhost now serves the memory.db in it, set upstream.moved_from = embedded")
	check(t, b.to(newURL, config.Embedded))
}

// A cluster is known by its bucket. Another kind of service holds none of the entries until somebody
// carries them over.
func TestDirectoryOfACluster(t *testing.T) {
	b := newBinding(t)
	to := func(servers, bucket, movedFrom string) error {
		c := config.Config{DataDir: b.dir, Upstream: config.Upstream{URL: servers, MovedFrom: movedFrom, NATS: config.NATS{Bucket: bucket}}}
		return bindUpstream(&c, b.j, slog.New(slog.NewTextHandler(&b.log, nil)))
	}
	check(t, b.to(oldURL, ""))
	check(t, b.j.Settle(b.write("k")))
	b.wantRefused(to("nats://host1:4222", "botwire", ""), "upstream.url is nats:botwire", oldURL, "if the memory has been carried over, set upstream.moved_from = "+oldURL)
	check(t, to("nats://host1:4222", "botwire", oldURL))
	b.wantBound("nats:botwire")
	for _, part := range []string{"another kind of service", "through a daemon with a new data_dir"} {
		if !strings.Contains(b.log.String(), part) {
			t.Errorf("log %q does not say %q", &b.log, part)
		}
	}
	check(t, to("tls://host2:4222,host3:4222", "botwire", ""))
	b.wantBound("nats:botwire")
	b.wantRefused(to("nats://host1:4222", "other", ""), "nats:other", "belongs to nats:botwire", "upstream.moved_from = nats:botwire")
	check(t, to("nats://host1:4222", "other", "nats:botwire"))
	b.wantBound("nats:other")
	b.wantRefused(b.to(newURL, ""), "nats:other", "if the memory has been carried over")
	check(t, b.to(newURL, "nats:other"))
}
