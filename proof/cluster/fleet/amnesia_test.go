package fleet

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/botwired/botwired/proof/cluster"
	"github.com/botwired/botwired/proof/cluster/check"
)

const lostNamespace = "kept"

func kept(i int) check.Entry {
	return check.Entry{Namespace: lostNamespace, Key: fmt.Sprint("key-", i)}
}

// The servers lose their disks. Two hosts give back what they have copies of, one after the other, and
// what one of them has written and deleted meanwhile wins over the other one's older copies.
func TestTwoHostsRestoreABucket(t *testing.T) {
	const entries = 20
	server := cluster.RunServer(t)
	flags := append(OverBucket("restored"), "--upstream-nats-replicas", "1", "--upstream-timeout", "2s")
	a, b := daemon(t, server.URL(), flags...), daemon(t, server.URL(), flags...)
	for i := range entries {
		if _, err := a.Put(t.Context(), kept(i), "before"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range entries {
		awaited(t, b, kept(i), "before")
	}
	if err := a.Flush(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server.SetStoreDir(t.TempDir())
	if _, err := b.Put(t.Context(), kept(0), "after"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Delete(t.Context(), kept(1)); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Daemon{a, b} {
		awaitStatus(t, d, "the loss is noticed", func(s lossStatus) bool { return s.Upstream.Watch.Lost != "" })
		if _, _, err := d.do(t.Context(), http.MethodPost, "/_botwired/restore?namespace=*", nil); err != nil {
			t.Fatal(err)
		}
		awaitStatus(t, d, "the namespace is not suspect any more", func(s lossStatus) bool {
			return s.Upstream.Watch.Lost == "" && s.Upstream.Watch.Sound && s.Pending == 0 && len(s.suspects()) == 0
		})
	}
	for _, d := range []*Daemon{a, b} {
		awaited(t, d, kept(0), "after")
		awaited(t, d, kept(1), "")
		for i := 2; i < entries; i++ {
			awaited(t, d, kept(i), "before")
		}
	}
	ofA, errA := a.List(t.Context(), lostNamespace, 100)
	ofB, errB := b.List(t.Context(), lostNamespace, 100)
	if errA != nil || errB != nil || len(ofA) != entries-1 || !maps.Equal(ofA, ofB) {
		t.Errorf("a lists %v, %v; b lists %v, %v", ofA, errA, ofB, errB)
	}
}

// lossStatus is what a status says of a loss.
type lossStatus struct {
	Pending  int `json:"pending"`
	Upstream struct {
		Watch struct {
			Lost  string `json:"lost"`
			Sound bool   `json:"sound"`
		} `json:"watch"`
	} `json:"upstream"`
	Namespaces []struct {
		Namespace string    `json:"namespace"`
		Suspect   *struct{} `json:"suspect"`
	} `json:"namespaces"`
}

func (s *lossStatus) suspects() (names []string) {
	for _, n := range s.Namespaces {
		if n.Suspect != nil {
			names = append(names, n.Namespace)
		}
	}
	return names
}

// awaitStatus asks for the status until it is as wanted.
func awaitStatus(t *testing.T, d *Daemon, what string, wanted func(lossStatus) bool) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var s lossStatus
		err := d.read(t.Context(), "/_botwired/status", &s)
		if err == nil && wanted(s) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: %+v, %v", what, s, err)
		}
	}
}
