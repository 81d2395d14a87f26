package fence_test

import (
	"math"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream/fence"
)

// Times are compared as they stand while the Date of an answer may be one of a clock that agrees. Otherwise they
// are corrected to about a second.
func TestAhead(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 700e6, time.UTC)
	for name, row := range map[string]struct {
		real   float64 // how far upstream's clock is ahead, in seconds
		cached float64 // how old the server's Date header is, in seconds
		took   time.Duration
		as     bool // the times are compared as they stand
	}{
		"the same clock":                {0, 0, 50 * time.Millisecond, true},
		"an old header":                 {0, 1.2, 50 * time.Millisecond, true},
		"2 s ahead":                     {2, 0, 0, true},
		"2 s behind":                    {-2, 0, 0, true},
		"2 s behind, an old header":     {-2, 1.2, 0, true},
		"5 s ahead":                     {5, 0, 50 * time.Millisecond, false},
		"5 s behind":                    {-5, 0, 50 * time.Millisecond, false},
		"5 s behind, an old header":     {-5, 1.2, 50 * time.Millisecond, false},
		"an hour ahead":                 {3600, 0.5, time.Second, false},
		"an hour behind":                {-3600, 0.5, time.Second, false},
		"a slow answer says too little": {3, 0, 9 * time.Second, true},
	} {
		made := now.Add(-row.took / 2).Add(time.Duration((row.real - row.cached) * float64(time.Second)))
		got := fence.Ahead(made.Truncate(time.Second), now, row.took)
		if row.as && got != 0 || !row.as && math.Abs(got-row.real) > 1.2+row.took.Seconds()/2 {
			t.Errorf("%s: %f", name, got)
		}
	}
	if got := fence.Ahead(time.Time{}, now, time.Second); got != 0 {
		t.Errorf("without a Date: %f", got)
	}
}
