package hashtable_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/hashtable"
)

type element struct {
	hashtable.Node[element]
	value int
}

type table = hashtable.Table[element, *element]

// A table behaves like a map under the same operations.
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

// A walk visits every element that is in the table from its beginning to its end, even if the table
// grows and changes meanwhile.
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
		for range 3 { // with more, the walk would never end
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

// The reason for the package: the cost of a million elements of 80 bytes in a table and in a map, and
// the time of the longest insertions. A map also has no [hashtable.Table.Walk].
func BenchmarkAMillion(b *testing.B) {
	const n = 1_000_000
	type mapped struct { // the same element, without the link
		key string
		_   [56]byte
	}
	type tabled struct {
		hashtable.Node[tabled]
		_ [56]byte
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	took := make([]time.Duration, n)
	measure := func(b *testing.B, insert func(string), has func(string) bool, remove func(string)) {
		before, began := heap(), time.Now()
		for i, key := range keys {
			at := time.Now()
			insert(key)
			took[i] = time.Since(at)
		}
		inserted := time.Now()
		b.ReportMetric(float64(inserted.Sub(began))/n, "ns/insert")
		b.ReportMetric(float64(heap()-before)/n, "B/element")
		slices.Sort(took)
		b.ReportMetric(float64(took[n-n/10_000]), "ns/p99.99")
		began = time.Now()
		for i := range keys {
			has(keys[i*7919%n])
		}
		b.ReportMetric(float64(time.Since(began))/n, "ns/lookup")
		began = time.Now()
		for i := range keys {
			remove(keys[i*7919%n])
		}
		b.ReportMetric(float64(time.Since(began))/n, "ns/delete")
	}
	b.Run("table", func(b *testing.B) {
		for b.Loop() {
			var t hashtable.Table[tabled, *tabled]
			measure(b, func(k string) { t.Insert(k, &tabled{}) }, func(k string) bool { return t.Get(k) != nil }, t.Delete)
		}
	})
	b.Run("map", func(b *testing.B) {
		for b.Loop() {
			m := make(map[string]*mapped)
			measure(b, func(k string) { m[k] = &mapped{key: k} }, func(k string) bool { return m[k] != nil }, func(k string) { delete(m, k) })
		}
	})
}

// heap returns how many bytes of heap are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
