package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/journal"
)

const (
	oldURL = "https://old.example"
	newURL = "https://new.example/base"
)

type boundDirectory struct {
	t   *testing.T
	dir string
	j   *journal.Journal
}

func newBinding(t *testing.T) *boundDirectory {
	t.Helper()
	b := &boundDirectory{t: t, dir: t.TempDir()}
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

func (b *boundDirectory) to(url string) error {
	b.t.Helper()
	url, err := config.ParseUpstream(url)
	check(b.t, err)
	return bindUpstream(&config.Config{DataDir: b.dir, Upstream: config.Upstream{URL: url}}, b.j)
}

// moved runs recover --moved-from.
func (b *boundDirectory) moved(former string, flags ...string) outcome {
	b.t.Helper()
	check(b.t, b.j.Close())
	got := botwired(b.t, append([]string{"recover", "--data-dir", b.dir, "--moved-from", former}, flags...)...)
	var err error
	b.j, err = journal.Open(journal.Options{Dir: filepath.Join(b.dir, journalDir)})
	check(b.t, err)
	return got
}

func (b *boundDirectory) wantBound(url string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "UPSTREAM"))
	if err != nil || string(text) != url+"\n" {
		b.t.Errorf("UPSTREAM is %q, %v; want %s", text, err, url)
	}
}

func (b *boundDirectory) wantRefused(err error, parts ...string) {
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

func (b *boundDirectory) write(key string) journal.Write {
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

// botwired never gives one upstream's data to another: no pending write, dead letter or copy.
func TestDirectoryIsOfItsUpstream(t *testing.T) {
	for name, test := range map[string]struct {
		fill  func(*boundDirectory)
		parts []string
	}{
		"pending": {func(b *boundDirectory) { b.write("k"); b.write("k"); b.write("l") },
			[]string{"2 pending writes, 0 dead letters:", "flush with upstream.url = " + oldURL}},
		"dead letter": {func(b *boundDirectory) {
			check(b.t, b.j.DeadLetter(b.write("k"), journal.Failure{Status: 400, Reason: "no"}))
		},
			[]string{"0 pending writes, 1 dead letter: choose another data_dir"}},
		"copies": {func(b *boundDirectory) { check(b.t, b.j.Settle(b.write("k"))) }, []string{"copies of its entries: choose"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBinding(t)
			check(t, b.to(oldURL))
			test.fill(b)
			check(t, b.to("https://OLD.example:443/"))
			says := "botwired recover --data-dir " + b.dir + " --upstream-url " + newURL + " --moved-from " + oldURL
			b.wantRefused(b.to(newURL), append(test.parts, newURL, oldURL, "data_dir", says)...)
			b.wantBound(oldURL)
			wantFailure(t, b.moved("https://older.example", "--upstream-url", newURL), cli.ExitError, "belongs to "+oldURL, "and not to https://older.example")
			wantFailure(t, b.moved("", "--upstream-url", newURL), cli.ExitUsage, "--moved-from")
			wantFailure(t, b.moved("old.example", "--upstream-url", newURL), cli.ExitUsage, `--moved-from = "old.example"`)
			b.wantBound(oldURL)
			for range 2 { // a script may run it twice
				got := b.moved(oldURL+"/", "--upstream-url", newURL)
				if got.code != cli.ExitOK || !strings.Contains(got.stdout, b.dir+" belongs to "+newURL+" from now on, with ") {
					t.Errorf("%+v", got)
				}
				b.wantBound(newURL)
			}
			check(t, b.to(newURL))
			b.wantRefused(b.to(oldURL), newURL)
			b.wantBound(newURL)
		})
	}
}

// An empty journal has nothing to protect.
func TestEmptyDirectoryTakesAnyUpstream(t *testing.T) {
	b := newBinding(t)
	for _, url := range []string{oldURL, newURL, "embedded"} {
		check(t, b.to(url))
		b.wantBound(url)
	}
}

// A directory without a recorded upstream, from an older botwired, is bound to the configured one.
func TestOlderDirectoryIsBound(t *testing.T) {
	b := newBinding(t)
	b.write("k")
	check(t, b.to(oldURL))
	b.wantBound(oldURL)
	b.wantRefused(b.to(newURL))
}

// A record that a power cut left half written does no harm. A file that names no upstream is an error,
// not a missing record.
func TestRecordThatCannotBeRead(t *testing.T) {
	b := newBinding(t)
	check(t, os.WriteFile(filepath.Join(b.dir, "UPSTREAM.new"), []byte("https://torn"), 0o600))
	check(t, b.to(oldURL))
	b.wantBound(oldURL)
	b.write("k")
	for _, text := range []string{"", "\n", "two\nlines", "nul\x00", "httpz//127.0.0.1:1", "http://127.0.0.1:", "https://user@old.example", strings.Repeat("x", 5000), strings.Repeat("x", 100_000)} {
		check(t, os.WriteFile(filepath.Join(b.dir, "UPSTREAM"), []byte(text), 0o600))
		b.wantRefused(b.to(oldURL), "UPSTREAM names no upstream", "damaged", "write into "+filepath.Join(b.dir, "UPSTREAM"), "upstream.url")
	}
	check(t, os.WriteFile(filepath.Join(b.dir, "UPSTREAM"), []byte(strings.ToUpper(oldURL[:12])+oldURL[12:]+"/\n"), 0o600))
	check(t, b.to(oldURL)) // as a user may write it
}

// Entries of a trial on the embedded upstream do not belong to botwire.dev: the error says which
// service may get them.
func TestDirectoryOfATrial(t *testing.T) {
	b := newBinding(t)
	check(t, b.to(config.Embedded))
	check(t, b.j.Settle(b.write("k")))
	b.wantRefused(b.to(newURL), "choose another data_dir, or, if botwired selfhost now serves the memory.db in it, say so once: ", "--moved-from embedded")
	inUse := botwired(t, "recover", "--data-dir", b.dir, "--upstream-url", newURL, "--moved-from", "embedded")
	wantFailure(t, inUse, cli.ExitError, "a running botwired uses it")
	b.wantBound("embedded")
	got := b.moved("embedded", "--upstream-url", newURL, "--json")
	wantOutput(t, got, `{"from":"embedded","to":"`+newURL+`","pending":0,"dead_letters":0,"copies":true}`+"\n")
	check(t, b.to(newURL))
}

// A cluster is identified by its bucket. A service of another kind has none of the entries until
// somebody copies them.
func TestDirectoryOfACluster(t *testing.T) {
	b := newBinding(t)
	to := func(servers, bucket string) error {
		return bindUpstream(&config.Config{DataDir: b.dir, Upstream: config.Upstream{URL: servers, NATS: config.NATS{Bucket: bucket}}}, b.j)
	}
	check(t, b.to(oldURL))
	check(t, b.j.Settle(b.write("k")))
	b.wantRefused(to("nats://host1:4222", "botwire"), "upstream.url is nats:botwire", oldURL, "if the memory has been carried over, say so once: ",
		"--upstream-url nats://host1:4222 --upstream-nats-bucket botwire --moved-from "+oldURL)
	got := b.moved(oldURL, "--upstream-url", "nats://host1:4222")
	b.wantBound("nats:botwire")
	for _, part := range []string{"another kind of service", "through a daemon with a new data_dir"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("%q does not say %q", got.stdout, part)
		}
	}
	check(t, to("tls://host2:4222,host3:4222", "botwire"))
	b.wantBound("nats:botwire")
	b.wantRefused(to("nats://host1:4222", "other"), "nats:other", "belongs to nats:botwire", "--moved-from nats:botwire")
	b.moved("nats:botwire", "--upstream-url", "nats://host1:4222", "--upstream-nats-bucket", "other")
	b.wantBound("nats:other")
	b.wantRefused(b.to(newURL), "nats:other", "if the memory has been carried over")
	b.moved("nats:other", "--upstream-url", newURL)
	check(t, b.to(newURL))
}
