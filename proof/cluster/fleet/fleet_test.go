package fleet

import (
	"testing"
	"time"

	"github.com/botwired/botwired/proof/cluster/check"
)

// A host shows another one's writes and deletes, and the bucket has the versions of both.
func TestAHostSeesAnotherOnesWrites(t *testing.T) {
	url := threeServers(t)
	a, b := daemon(t, url, OverBucket("seen")...), daemon(t, url, OverBucket("seen")...)
	e := check.Entry{Namespace: "seen", Key: "a.key"}
	if _, err := a.Put(t.Context(), e, "of a"); err != nil {
		t.Fatal(err)
	}
	first := awaited(t, b, e, "of a")
	if _, err := b.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	awaited(t, a, e, "")
	if err := b.Flush(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	all, err := ReadBucket(t.Context(), url, "seen")
	if err != nil {
		t.Fatal(err)
	}
	list := all[e]
	if len(list) != 2 || list[0].Value != "of a" || list[0].WrittenAt != first.UpdatedAt || !list[1].Deleted || list[1].Host == list[0].Host {
		t.Errorf("the bucket has %+v, and the read had %+v", list, first)
	}
}

// awaited reads until an entry has the value; "" is none.
func awaited(t *testing.T, d *Daemon, e check.Entry, value string) check.State {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s, found, err := d.Get(t.Context(), e)
		if err == nil && found == (value != "") && s.Value == value {
			return s
		}
		if time.Now().After(until) {
			t.Fatalf("%+v, %v, want %q", s, err, value)
		}
	}
}
