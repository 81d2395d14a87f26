package cache_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/botwired/botwired/cache"
)

// wokenUp returns a time after a suspension, when the monotonic clock stood still. Package time cannot
// make one.
func wokenUp(t *testing.T, before time.Time, suspended time.Duration) time.Time {
	t.Helper()
	after := before.Add(suspended)
	monotonic := (*int64)(unsafe.Add(unsafe.Pointer(&after), 8)) // the field time.Time.ext
	*monotonic -= int64(suspended)
	if after.Sub(before) != 0 || after.Round(0).Sub(before.Round(0)) != suspended {
		t.Fatal("time.Time has changed its layout")
	}
	return after
}

// A fresh answer ages during a suspension (contract 19).
func TestAgeAfterASuspension(t *testing.T) {
	confirmed := time.Now()
	if got := cache.Age(confirmed, wokenUp(t, confirmed, time.Hour)); got != time.Hour {
		t.Errorf("age is %v", got)
	}
}
