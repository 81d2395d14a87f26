package cache

import "testing"

// If two keys have the same hash, neither gets the other's answer (contract 6).
func TestHashesThatMeet(t *testing.T) {
	c, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mine := Key{Namespace: "ns", Key: "mine"}
	hash, _ := c.hash(mine)
	for range 1_000_000 { // until Ristretto has stored it
		c.items.Set(hash, &Item{Body: []byte("1"), key: Key{Namespace: "ns", Key: "another's"}}, 1)
		if _, ok := c.items.Get(hash); ok {
			break
		}
	}
	if _, ok := c.items.Get(hash); !ok {
		t.Fatal("never kept")
	}
	if item, _ := c.Get(mine); item != nil {
		t.Errorf("it is answered with %q", item.Body)
	}
}
