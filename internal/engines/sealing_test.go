package engines

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
)

// A daemon with sealed namespaces does not start without its key file, or with another name key than before: its
// memory would look empty. Another sealing key is only rotated.
func TestKeysThatAStartNeeds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	loaded, err := config.Load(config.Sources{
		Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
		Flags:   map[string]string{"upstream.url": "https://botwire.dev", "data_dir": dir, "seal.key_file": file},
	})
	noError(t, err)
	start := func() string {
		t.Helper()
		opened, err := Open(t.Context(), &loaded.Config, ofDaemon(t))
		if err != nil {
			return err.Error()
		}
		noError(t, opened.Close())
		return ""
	}
	want := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("the start says %q, not %q", got, part)
			}
		}
		if len(parts) == 0 && got != "" {
			t.Errorf("the start says %q", got)
		}
	}
	write := func(lines ...string) {
		t.Helper()
		noError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	}
	lines := func() (name, sealing string) {
		text := strings.Split(strings.TrimSpace(string(seal.Generate())), "\n")
		return text[len(text)-2], text[len(text)-1]
	}
	want(start(), "there is no "+file, "Bring it back", "Lose the key", "botwired seal keygen "+file)
	name, sealing := lines()
	write(name, sealing)
	want(start())
	other, rotated := lines()
	write(name, rotated)
	want(start())
	write(other, sealing)
	refused := start()
	want(refused, file, "Bring the file with that key back", "Lose the key", filepath.Join(dir, "SEALED"))
	write(name, sealing)
	want(start())
	write(other, sealing)
	keys, err := seal.Load(file)
	noError(t, err)
	want(refused, keys.NameID())
	noError(t, os.WriteFile(filepath.Join(dir, "SEALED"), []byte(keys.NameID()+"\n"), 0o600))
	want(start())
}

// directory is a data directory on which daemons start, one after the other.
type directory struct {
	t   *testing.T
	dir string
}

func newDirectory(t *testing.T) *directory {
	t.Helper()
	d := &directory{t, t.TempDir()}
	noError(t, os.WriteFile(d.keys(), seal.Generate(), 0o600))
	return d
}

func (d *directory) keys() string { return filepath.Join(d.dir, "keys") }

// use works on the journal.
func (d *directory) use(work func(j *journal.Journal)) {
	d.t.Helper()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(d.dir, "journal"), LossLimit: journal.UsualLossLimit})
	noError(d.t, err)
	noError(d.t, j.Run(d.t.Context()))
	work(j)
	noError(d.t, j.Close())
}

// start starts a daemon with the given setting of namespaces; without one, it has no keys. It returns why the daemon does
// not start. running gets the journal of one that does, before the journal is read.
func (d *directory) start(namespaces string, running ...func(j *journal.Journal)) string {
	d.t.Helper()
	flags := map[string]string{"upstream.url": "https://botwire.dev", "data_dir": d.dir}
	if namespaces != "" {
		flags["namespaces"], flags["seal.key_file"] = namespaces, d.keys()
	}
	loaded, err := config.Load(config.Sources{Environ: []string{"HOME=" + d.dir, "LocalAppData=" + d.dir}, Flags: flags})
	noError(d.t, err)
	j, err := journal.Open(journal.Options{Dir: filepath.Join(d.dir, "journal"), LossLimit: journal.UsualLossLimit})
	noError(d.t, err)
	defer func() { noError(d.t, j.Close()) }()
	opened, err := Open(d.t.Context(), &loaded.Config, Options{Logger: slog.New(slog.DiscardHandler), Journal: j})
	if err != nil {
		return err.Error()
	}
	for _, f := range running {
		f(j)
	}
	noError(d.t, opened.Close())
	return ""
}

// starts fails the test unless a daemon starts.
func (d *directory) starts(namespaces string, running ...func(j *journal.Journal)) {
	d.t.Helper()
	if why := d.start(namespaces, running...); why != "" {
		d.t.Fatalf("with %q, a daemon does not start: %s", namespaces, why)
	}
}

// refuses fails the test unless a daemon does not start, and says what is expected.
func (d *directory) refuses(namespaces string, parts ...string) {
	d.t.Helper()
	why := d.start(namespaces)
	for _, part := range parts {
		if !strings.Contains(why, part) {
			d.t.Errorf("with %q, the start says %q, not %q", namespaces, why, part)
		}
	}
}

const (
	sealsPrivate = `[{"match":"private","sealed":true}]`
	sealsOther   = `[{"match":"other","sealed":true}]`
)

func private(key string) journal.ID { return journal.ID{Namespace: "private", Key: key} }

func always() bool { return true }

// shows fills in what upstream shows of an entry; nil if it holds none.
func shows(t *testing.T, j *journal.Journal, id journal.ID, value string) {
	t.Helper()
	_, err := j.Fill(id, &journal.Observation{Value: value, ListBytes: len(value), CreatedAt: 1, UpdatedAt: 2}, always)
	noError(t, err)
}

func write(t *testing.T, j *journal.Journal, op journal.Op, id journal.ID) journal.Write {
	t.Helper()
	w, err := j.Append(journal.NewWrite{ID: id, Op: op, Request: &journal.Request{Name: [16]byte{1}}})
	noError(t, err)
	return w
}

func settled(t *testing.T, j *journal.Journal, op journal.Op, id journal.ID) {
	t.Helper()
	noError(t, j.Settle(write(t, j, op, id)))
}

// What was written to a sealed namespace must not go upstream in the clear because the settings no longer seal it.
func TestNamespacesThatWereSealed(t *testing.T) {
	d := newDirectory(t)
	d.use(func(j *journal.Journal) {
		shows(t, j, journal.ID{Namespace: "open-1", Key: "k"}, "v")
	})
	began := false
	for _, c := range []struct{ name, namespaces, refused string }{
		{"sealed", `[{"match":"open-*","sealed":false},{"match":"*","sealed":true}]`, ""},
		{"one more that is not", `[{"match":"pub","sealed":false},{"match":"open-*","sealed":false},{"match":"*","sealed":true}]`, ""},
		{"another pattern", `[{"match":"priv-*","sealed":true}]`, "private"},
		{"the first that fits counts", `[{"match":"private","sealed":false},{"match":"*","sealed":true}]`, "private"},
		{"none", "", "private"},
		{"still refused", `[{"match":"priv-*","sealed":true}]`, "private"},
		{"by its name", sealsPrivate, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.refused != "" {
				d.refuses(c.namespaces, c.refused+" was sealed, and no longer is", "1 copy")
				return
			}
			d.starts(c.namespaces)
			if !began {
				began = true
				d.use(func(j *journal.Journal) { shows(t, j, private("k"), "v") })
			}
		})
	}
}

// Whatever is kept of a sealed namespace counts, and the refusal names it. Once a person has purged the namespace, or
// nothing but an empty listing is left, it is plain again, and nothing of the sealed one is known of it.
func TestWhatIsKeptOfASealedNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		does func(t *testing.T, j *journal.Journal)
		kept string
	}{
		"a pending write": {func(t *testing.T, j *journal.Journal) { t.Helper(); write(t, j, journal.Put, private("k")) }, "1 pending write"},
		"a row": {func(t *testing.T, j *journal.Journal) {
			t.Helper()
			noError(t, j.BeginListing("private").Commit([]journal.Row{{Key: "k", UpdatedAt: 2}}, true))
		}, "1 copy"},
		"the history": {func(t *testing.T, j *journal.Journal) {
			t.Helper()
			settled(t, j, journal.Put, private("k"))
			settled(t, j, journal.Delete, private("k"))
		}, "2 versions, 3 receipts"},
		"a version that upstream has shown": {func(t *testing.T, j *journal.Journal) {
			t.Helper()
			shows(t, j, private("k"), "v")
			_, err := j.Fill(private("k"), nil, always)
			noError(t, err)
		}, "keeps of it 2 versions:"},
		"a refused write": {func(t *testing.T, j *journal.Journal) {
			t.Helper()
			noError(t, j.DeadLetter(write(t, j, journal.Put, private("k")), journal.Failure{Kind: journal.Refused}))
		}, "1 dead letter"},
		"a dropped write": {func(t *testing.T, j *journal.Journal) {
			t.Helper()
			noError(t, j.DeadLetter(write(t, j, journal.Put, private("k")), journal.Failure{Kind: journal.Dropped}))
		}, "1 dead letter"},
		"another host's state": {func(t *testing.T, j *journal.Journal) {
			t.Helper()
			noError(t, j.Fence.KeepOverwritten(private("k"), journal.Observation{Value: "theirs", UpdatedAt: 2}))
		}, "keeps of it 1 version:"},
		"an unanswered request": {func(t *testing.T, j *journal.Journal) {
			t.Helper()
			w := write(t, j, journal.Put, private("k"))
			_, err := j.MarkSent(w)
			noError(t, err)
			noError(t, j.DeadLetter(w, journal.Failure{Kind: journal.Dropped}))
		}, "1 unanswered request"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			d.starts(sealsPrivate)
			d.use(func(j *journal.Journal) { c.does(t, j) })
			for _, namespaces := range []string{"", sealsOther} {
				d.refuses(namespaces, "private was sealed, and no longer is", c.kept, "sealed: true", "botwired purge private", "Take a namespace out")
			}
			d.starts(sealsPrivate)
			d.use(func(j *journal.Journal) {
				for _, p := range j.PendingList("private", 1) {
					noError(t, j.Settle(journal.Write{ID: p.ID, Seq: p.Seq, Op: p.Op}))
				}
				_, err := j.Purge(t.Context(), "private", "", 1<<40)
				noError(t, err)
				noError(t, j.BeginListing("private").Commit(nil, true))
			})
			d.starts("", func(j *journal.Journal) {
				if s, err := j.Lookup(private("k")); err != nil || s.Kind != journal.Unknown {
					t.Errorf("the plain entry is %+v, %v", s, err)
				}
			})
		})
	}
}

// A namespace that becomes sealed is another one upstream: what is known of the plain one counts for nothing there, however
// often its first start is cut off. What is known of the sealed one stays.
func TestNamespaceThatBecomesSealed(t *testing.T) {
	for name, sealing := range map[string][2]string{
		"the first one": {"", sealsPrivate}, "one more": {sealsOther, `[{"match":"other","sealed":true},{"match":"private","sealed":true}]`},
		"by a wider pattern": {`[{"match":"private-*","sealed":true}]`, `[{"match":"private*","sealed":true}]`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			d.starts(sealing[0])
			d.use(func(j *journal.Journal) {
				var rows []journal.Row
				for _, key := range strings.Split("abcdefghijkl", "") {
					shows(t, j, private(key), "planted")
					rows = append(rows, journal.Row{Key: key, ListBytes: 7, UpdatedAt: 2})
				}
				noError(t, j.BeginListing("private").Commit(rows, true))
				noError(t, j.BeginListing("private").Commit(nil, true))
				if _, suspect := j.Trust.Suspect("private"); !suspect {
					t.Error("there is no data loss")
				}
				settled(t, j, journal.Put, private("mine"))
			})
			before, err := os.ReadFile(filepath.Join(d.dir, sealedFile))
			if err != nil && sealing[0] != "" {
				t.Fatal(err)
			}
			for range 2 { // the second start is that after a crash before SEALED was written
				d.starts(sealing[1], func(j *journal.Journal) {
					for _, key := range []string{"a", "l", "mine", "never"} {
						if s, err := j.Lookup(private(key)); err != nil || s.Kind != journal.Unknown || s.Listed {
							t.Errorf("%s is %+v, %v", key, s, err)
						}
					}
					if _, suspect := j.Trust.Suspect("private"); suspect {
						t.Error("there is data loss")
					}
					if copies, err := j.Trust.Copies("private", "", 10); err != nil || len(copies) != 0 {
						t.Errorf("a restoration would write %+v, %v", copies, err)
					}
				})
				if before == nil {
					noError(t, os.Remove(filepath.Join(d.dir, sealedFile)))
				} else {
					noError(t, os.WriteFile(filepath.Join(d.dir, sealedFile), before, 0o600))
				}
			}
			d.starts(sealing[1])
			d.use(func(j *journal.Journal) { shows(t, j, private("a"), "sealed") })
			d.starts(sealing[1], func(j *journal.Journal) {
				if s, err := j.Lookup(private("a")); err != nil || s.Value != "sealed" {
					t.Errorf("the sealed entry is %+v, %v", s, err)
				}
			})
		})
	}
}

// What was acknowledged for the plain namespace goes there: the start that would send it to the sealed one is refused.
func TestWritesBeforeASeal(t *testing.T) {
	for name, c := range map[string]struct {
		does func(t *testing.T, j *journal.Journal)
		says []string
		ends func(t *testing.T, j *journal.Journal)
	}{
		"a delete": {
			func(t *testing.T, j *journal.Journal) { t.Helper(); write(t, j, journal.Delete, private("k")) },
			[]string{"1 pending write ", "Flush first", "botwired flush --namespace private"},
			func(t *testing.T, j *journal.Journal) {
				t.Helper()
				w, _, err := j.Newest(private("k"))
				noError(t, err)
				noError(t, j.Settle(w))
			},
		},
		"a refused write": {
			func(t *testing.T, j *journal.Journal) {
				t.Helper()
				noError(t, j.DeadLetter(write(t, j, journal.Put, private("k")), journal.Failure{Kind: journal.Refused}))
			},
			[]string{"1 open dead letter ", "botwired dead-letters --namespace private"},
			func(t *testing.T, j *journal.Journal) {
				t.Helper()
				letters, err := j.DeadLetters(0, 1)
				noError(t, err)
				noError(t, j.Discard(letters[0].Seq))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			d.starts(sealsOther)
			d.use(func(j *journal.Journal) {
				settled(t, j, journal.Put, journal.ID{Namespace: "plain", Key: "k"})
				write(t, j, journal.Delete, journal.ID{Namespace: "plain", Key: "k"})
				c.does(t, j)
			})
			both := `[{"match":"other","sealed":true},{"match":"priv*","sealed":true}]`
			d.refuses(both, append(c.says, "private is to be sealed")...)
			d.starts(sealsOther)
			d.use(func(j *journal.Journal) { c.ends(t, j) })
			d.starts(both)
		})
	}
}
