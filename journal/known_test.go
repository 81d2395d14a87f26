package journal_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// entriesKnown returns the known entries of the test's namespace with a prefix, in steps of most
// entries.
func entriesKnown(t testing.TB, j *journal.Journal, prefix string, most int) (found []journal.Known) {
	t.Helper()
	for last := ""; ; {
		part, _, err := j.Keys.Known("ns", prefix, last, most)
		no(t, err)
		found = append(found, part...)
		if len(part) < most {
			return found
		}
		last = part[most-1].Key
	}
}

// The known entries with a prefix come in order, each once, for any step size.
func TestKnownEntriesWithAPrefix(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		j := open(t, vfs.NewMem())
		all := make(map[string]bool)
		for range 60 {
			name := make([]byte, 1+random.IntN(4))
			for i := range name {
				name[i] = "-.0a_"[random.IntN(5)]
			}
			known(t, j, key("%s", name), 1+random.IntN(7))
			all[string(name)] = true
		}
		for _, prefix := range []string{"", "-", "a", "a-", "._", "zz"} {
			var want []string
			for name := range all {
				if strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			for _, most := range []int{1, 3, 1000} {
				var got []string
				for _, k := range entriesKnown(t, j, prefix, most) {
					got = append(got, k.Key)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("prefix %q, %d at a time (-want +got):\n%s", prefix, most, diff)
				}
			}
		}
	}
}

func TestWhatIsKnownOfAnEntry(t *testing.T) {
	j := open(t, vfs.NewMem())
	_, err := j.Fill(key("copied"), observed("theirs"), always)
	no(t, err)
	deleted := remove(t, j, key("deleted"))
	later := lookup(t, j, key("copied")).UpdatedAt + 60
	put(t, j, key("settled"), "mine")
	settled := settle(t, j, key("settled"))
	waits := put(t, j, key("waits"), "longer")
	_, err = j.Fill(key("outdated"), observed("theirs"), always)
	no(t, err)
	no(t, j.BeginListing("ns").Commit([]journal.Row{
		{Key: "listed", ListBytes: 3, UpdatedAt: 7}, {Key: "outdated", ListBytes: 99, UpdatedAt: later},
		{Key: "copied", ListBytes: len("theirs"), UpdatedAt: later - 60}, {Key: "settled", ListBytes: 4, UpdatedAt: settled.UpdatedAt},
	}, true))
	want := []journal.Known{
		{Key: "copied", Op: journal.Put, ListBytes: len("theirs"), UpdatedAt: later - 60},
		{Key: "deleted", Pending: true, Op: journal.Delete, UpdatedAt: deleted.UpdatedAt, Seq: deleted.Seq},
		{Key: "listed", Op: journal.Put, ListBytes: 3, UpdatedAt: 7},
		{Key: "outdated", Op: journal.Put, ListBytes: 99, UpdatedAt: later},
		{Key: "settled", Op: journal.Put, ListBytes: 4, UpdatedAt: settled.UpdatedAt, Seq: settled.Seq},
		{Key: "waits", Pending: true, Op: journal.Put, ListBytes: waits.ListBytes, UpdatedAt: waits.UpdatedAt, Seq: waits.Seq},
	}
	if diff := cmp.Diff(want, entriesKnown(t, j, "", 100)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for most, want := range map[int]int{100: 5, 3: 3} { // a pending delete does not count
		if n, err := j.Keys.Count("ns", most); n != want || err != nil {
			t.Errorf("up to %d: %d, %v", most, n, err)
		}
	}
}

// If one name continues another with a hyphen, the longer one's records come first.
func TestNamespacesInOrder(t *testing.T) {
	j := open(t, vfs.NewMem())
	want := []string{"-", "a", "a-", "a--b", "a-b", "a0", "ab", "b"}
	for i, name := range want {
		known(t, j, journal.ID{Namespace: name, Key: "k"}, 1+i%7)
		if i%2 == 0 {
			no(t, j.BeginListing(name).Commit([]journal.Row{{Key: "other", ListBytes: 1, UpdatedAt: 1}}, true))
		}
	}
	no(t, j.BeginListing("empty").Commit(nil, true))
	for _, most := range []int{1, 2, 100} {
		var got []string
		for last := ""; ; {
			names, err := j.Keys.Namespaces(last, most, func(string) bool { return true })
			no(t, err)
			got = append(got, names...)
			if len(names) < most {
				break
			}
			last = names[most-1]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d at a time (-want +got):\n%s", most, diff)
		}
	}
	names, err := j.Keys.Namespaces("a", 2, func(name string) bool { return strings.Contains(name, "b") })
	if diff := cmp.Diff([]string{"a--b", "a-b"}, names); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
