package hashtable_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/botwired/botwired/internal/hashtable"
)

type element struct {
	hashtable.Node[element]
	value int
}

type table = hashtable.Table[element, *element]

// A table and a map that are changed alike hold the same.
func TestLikeAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var tab table
	same := make(map[string]int)
	for step := range 200_000 {
		key := fmt.Sprint(random.IntN(5_000))
		e := tab.Get(key)
		value, ok := same[key]
		if (e != nil) != ok || ok && (e.value != value || e.Key() != key) {
			t.Fatalf("step %d: %s is %v, want %d %v", step, key, e, value, ok)
		}
		if random.IntN(3) > 0 && !ok {
			tab.Insert(key, &element{value: step})
			same[key] = step
		} else {
			tab.Delete(key)
			delete(same, key)
		}
		if tab.Len() != len(same) {
			t.Fatalf("step %d: %d elements, want %d", step, tab.Len(), len(same))
		}
	}
}

// What is in the table from the beginning of a walk to its end is visited, however the
// table grows and changes meanwhile.
func TestWalkAmidChanges(t *testing.T) {
	var tab table
	for i := range 3_000 {
		tab.Insert(fmt.Sprint("stays", i), &element{})
		tab.Insert(fmt.Sprint("goes", i), &element{})
	}
	visited := make(map[string]bool)
	come, gone := 0, 0
	for cursor, done := 0, false; !done; {
		cursor, done = tab.Walk(cursor, 10, func(e *element) { visited[e.Key()] = true })
		for range 3 { // faster than this, the walk would never end
			tab.Insert(fmt.Sprint("comes", come), &element{})
			come++
		}
		tab.Delete(fmt.Sprint("goes", gone))
		gone++
	}
	if come < 3_000 {
		t.Fatalf("the table has grown by %d only", come)
	}
	for i := range 3_000 {
		if key := fmt.Sprint("stays", i); !visited[key] {
			t.Errorf("%s was not visited", key)
		}
	}
}

func TestEmptyTable(t *testing.T) {
	var tab table
	tab.Delete("a")
	if tab.Get("a") != nil || tab.Len() != 0 {
		t.Error("something is in an empty table")
	}
	if _, done := tab.Walk(0, 1, func(*element) { t.Error("visited") }); !done {
		t.Error("the walk does not end")
	}
}

// The package's reason: what an element costs beside itself and its key.
func BenchmarkInsert(b *testing.B) {
	var tab table
	keys := make([]string, b.N)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	b.ReportMetric(float64(unsafe.Sizeof(hashtable.Node[element]{})-unsafe.Sizeof("")), "link-bytes/op")
	b.ReportAllocs()
	b.ResetTimer()
	for _, key := range keys {
		tab.Insert(key, &element{})
	}
}
