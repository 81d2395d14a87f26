package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const summary = `syscall                calls    errors
------------------ --------- ---------
epoll_pwait              1557
futex                      24         2
nanosleep                 136
read                     1005         5
write                    1000
writev                      3
openat                     10         4
fdatasync                 100
------------------ --------- ---------
total                    3835        11
`

func TestSummary(t *testing.T) {
	got, err := parseCalls(summary)
	want := map[string]calls{
		"epoll_pwait": {1557, 0}, "futex": {24, 2}, "nanosleep": {136, 0}, "read": {1005, 5}, "write": {1000, 0},
		"writev": {3, 0}, "openat": {10, 4}, "fdatasync": {100, 0},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(calls{})); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, cut := range []string{"", summary[:len(summary)/2], "strace: Process 7 detached\n"} {
		if got, err := parseCalls(cut); err == nil {
			t.Errorf("%q is a summary: %v", cut, got)
		}
	}
}

// A system call counts in its column, and in no column if the clock makes it.
func TestCallsHaveColumns(t *testing.T) {
	counted, err := parseCalls(summary)
	if err != nil {
		t.Fatal(err)
	}
	var got counts
	got.addCalls(counted, 1000)
	want := counts{reads: 1, readsInVain: 0.005, writes: 1.003, fsyncs: 0.1, waits: 1.557, futexes: 0.024, others: 0.01}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Errorf("%s: %v, want %v", described[i].title, got[i], want[i])
		}
	}
}
