package config_test

import (
	"math"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1ns", 1500: "1.5µs", 50 * time.Millisecond: "50ms", 1500 * time.Millisecond: "1.5s",
		10 * time.Second: "10s", time.Minute: "1m", 90 * time.Second: "90s", 100 * time.Minute: "100m", time.Hour: "1h",
		90 * time.Minute: "90m", day: "1d", 36 * time.Hour: "36h", 365 * day: "365d",
		day + time.Nanosecond: "24h0m0.000000001s", math.MaxInt64: "2562047h47m16.854775807s",
	} {
		got := config.FormatDuration(d)
		if got != want {
			t.Errorf("FormatDuration(%v) = %s, want %s", d, got, want)
		}
		if back, err := config.ParseDuration(got); back != d || err != nil {
			t.Errorf("ParseDuration(%s) = %v, %v", got, back, err)
		}
	}
	for s, want := range map[string]time.Duration{"1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour, "2d1ms": 2*day + time.Millisecond, "-1d": -day} {
		if got, err := config.ParseDuration(s); got != want || err != nil {
			t.Errorf("ParseDuration(%s) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "d", "1", "1h2d", "1d2", "1d-2h", "1d+2h", "-1d2h", "1d1d", "106752d", "106751d24h", "1 d"} {
		if got, err := config.ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v", s, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1000: "1kB", 1024: "1KiB", 1025: "1025", 1500: "1500", 64 << 20: "64MiB", 64e6: "64MB",
		1 << 30: "1GiB", 1536 << 20: "1536MiB", 3 << 40: "3TiB", 5e12: "5TB", 1500e3: "1500kB", math.MaxInt64: "9223372036854775807",
	} {
		got := config.FormatSize(n)
		if got != want {
			t.Errorf("FormatSize(%d) = %s, want %s", n, got, want)
		}
		if back, err := config.ParseSize(got); back != n || err != nil {
			t.Errorf("ParseSize(%s) = %d, %v", got, back, err)
		}
	}
	for s, want := range map[string]int64{"1b": 1, "512M": 512e6, "512Mi": 512 << 20, "2g": 2e9, "3Ki": 3 << 10, "1.5MiB": 1536 << 10, "0.5Gi": 512 << 20, "2 KIB": 2048, "2kb": 2000, "8388607TiB": 8388607 << 40} {
		if got, err := config.ParseSize(s); got != want || err != nil {
			t.Errorf("ParseSize(%s) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "B", "M", "1i", "1Mib i", "1.5", "0.3KiB", "1/2MiB", ".MiB", "1..5MiB", "1  B", " 1", "8388608TiB", "1e6", "1MiBs"} {
		if got, err := config.ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %d", s, got)
		}
	}
}

func TestSuggest(t *testing.T) {
	candidates := []string{"flush.linger", "flush.backoff_max", "cache.fresh_for", "listen", "log.level"}
	for name, want := range map[string]string{
		"flush.lnger": "flush.linger", "FLUSH_LINGER": "flush.linger", "flush.ligner": "flush.linger",
		"backoff-max": "flush.backoff_max", "lisetn": "listen", "x": "", "temperature": "",
	} {
		if got := config.Suggest(name, candidates); got != want {
			t.Errorf("Suggest(%s) = %q, want %q", name, got, want)
		}
	}
}
