package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a duration in Go's notation, which may begin with days:
// "200ms", "1m30s", "7d", "1d12h".
func ParseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	whole, err := time.ParseDuration(days + "h") // days, counted as hours
	if err != nil || strings.Trim(days, "+-.0123456789") != "" || whole > math.MaxInt64/24 || whole < math.MinInt64/24 {
		return 0, errors.New("not a duration")
	}
	if rest == "" {
		return whole * 24, nil
	}
	part, err := time.ParseDuration(rest)
	if err != nil || whole < 0 || rest[0] == '-' || rest[0] == '+' || whole*24 > math.MaxInt64-part {
		return 0, errors.New("not a duration")
	}
	return whole*24 + part, nil
}

// FormatDuration returns the shortest text that ParseDuration reads as exactly d: "1m",
// "90s", "36h", "2d". Of equally short texts it returns the one with the larger unit.
func FormatDuration(d time.Duration) string {
	best := trimZeroes(d.String())
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"m", time.Minute}, {"h", time.Hour}, {"d", day}, {"s", time.Second}} {
		if d == 0 || d%unit.size != 0 {
			continue
		}
		if s := strconv.FormatInt(int64(d/unit.size), 10) + unit.name; len(s) < len(best) {
			best = s
		}
	}
	return best
}

// trimZeroes turns "1h0m0s" into "1h".
func trimZeroes(s string) string {
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
