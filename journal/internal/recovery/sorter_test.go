package recovery

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

// The sorter returns the newest version of each key, in key order, for any number of runs, and each
// time it is asked.
func TestSorter(t *testing.T) {
	for _, n := range []int{0, 10, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			fs := vfs.NewMem()
			s := &sorter{fs: fs, dir: "sorting", limit: 20 * heldOverhead}
			newest := make(map[string]version)
			most := 0
			for i := range n {
				// A zero byte in a key must not change its position.
				key := fmt.Sprintf("%c%d", rng.IntN(2), rng.IntN(n/2))
				v := version{order: uint64(rng.IntN(50)), deleted: rng.IntN(5) == 0, value: fmt.Append(nil, i)}
				if err := s.add([]byte(key), v.value, v.order, v.deleted); err != nil {
					t.Fatal(err)
				}
				if old, ok := newest[key]; !ok || v.order >= old.order {
					newest[key] = v
				}
				most = max(most, len(s.runs))
			}
			want := []string{}
			for _, key := range slices.Sorted(maps.Keys(newest)) {
				v := newest[key]
				want = append(want, fmt.Sprintf("%q %d %t %s", key, v.order, v.deleted, v.value))
			}
			for range 2 {
				got := []string{}
				err := s.each(func(v *version) error {
					got = append(got, fmt.Sprintf("%q %d %t %s", v.key, v.order, v.deleted, v.value))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			names, err := fs.List("sorting")
			if n > 0 && (err != nil || len(names) != len(s.runs) || len(names) > runsAtMost+1) {
				t.Errorf("runs are %v and the files %v (%v)", s.runs, names, err)
			}
			if n == 3000 && (most < runsAtMost-1 || s.made < 2*runsAtMost) {
				t.Errorf("only %d runs were made, %d at a time", s.made, most)
			}
		})
	}
}
