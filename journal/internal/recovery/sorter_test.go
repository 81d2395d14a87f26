package recovery

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
)

// The sorter returns the newest version of each key, in key order, and each time it is asked.
func TestSorter(t *testing.T) {
	for _, n := range []int{0, 10, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			fs := vfs.NewMem()
			s, err := newSorter(fs, "sorting")
			if err != nil {
				t.Fatal(err)
			}
			type version struct {
				order   uint64
				deleted bool
				value   []byte
			}
			newest := make(map[string]version)
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
				if i%10 == 0 { // into many tables
					s.held = sortBytes
					if err := s.apply(); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := []string{}
			for _, key := range slices.Sorted(maps.Keys(newest)) {
				v := newest[key]
				want = append(want, fmt.Sprintf("%q %t %s", key, v.deleted, v.value))
			}
			for range 2 {
				got := []string{}
				err := s.each(func(key, value []byte, deleted bool) error {
					got = append(got, fmt.Sprintf("%q %t %s", key, deleted, value))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// On a disk without room, the sorter fails, and does not wait.
func TestSorterOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	s, err := newSorter(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	})), "sorting")
	if err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	value := make([]byte, 1<<20)
	for i := 0; err == nil && i < 64; i++ {
		err = s.add(fmt.Append(nil, i), value, 1, false)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	_ = s.close()
}
