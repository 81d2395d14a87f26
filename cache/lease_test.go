package cache_test

import (
	"testing"

	"github.com/botwired/botwired/cache"
)

func TestALeaseIsRevokedByAChangeOfItsKeyAlone(t *testing.T) {
	c := open(t, 1<<20)
	lease := func(k cache.Key) *cache.Lease {
		l := c.Lease(k)
		t.Cleanup(l.Release)
		return l
	}
	leases := map[string]*cache.Lease{
		"entry": lease(entry), "again": lease(entry), "neighbour": lease(cache.Key{Namespace: "ns", Key: "other"}),
		"listing": lease(listing), "elsewhere": lease(cache.Key{Namespace: "elsewhere", Limit: 10}),
	}
	want := func(what string, revoked ...string) {
		t.Helper()
		expected := make(map[string]bool)
		for _, name := range revoked {
			expected[name] = true
		}
		for name, l := range leases {
			if l.Revoked() != expected[name] {
				t.Errorf("%s: the lease on %s is revoked: %t", what, name, l.Revoked())
			}
		}
	}
	want("at first")
	c.Changed("ns", "") // a listing's change does not change an entry
	want("after a listing's change", "listing")
	c.Changed("ns", "key")
	want("after an entry's change", "listing", "entry", "again")
	late := c.Lease(entry)
	late.Release()
	c.Changed("ns", "key")
	if late.Revoked() {
		t.Error("a lease is revoked after its release")
	}
}
