package config

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// unit is a unit of size in bytes, or of duration in nanoseconds.
type unit struct {
	name string
	size int64
}

// durationUnits and sizeUnits begin with the largest. In sizeUnits, powers of 1024 come before powers
// of 1000.
var (
	durationUnits = []unit{{"d", int64(day)}, {"h", int64(time.Hour)}, {"m", int64(time.Minute)}, {"s", int64(time.Second)}}
	sizeUnits     = []unit{
		{"TiB", 1 << 40}, {"TB", 1e12},
		{"GiB", 1 << 30}, {"GB", 1e9},
		{"MiB", 1 << 20}, {"MB", 1e6},
		{"KiB", 1 << 10}, {"kB", 1e3},
		{"", 1},
	}
)

// shortest formats n in the unit with the shortest text, or returns otherwise if no text is shorter
// than that. For equally short texts it takes the larger unit.
func shortest(n int64, units []unit, otherwise string) string {
	best := otherwise
	for _, u := range units {
		if n == 0 || n%u.size != 0 {
			continue
		}
		if s := strconv.FormatInt(n/u.size, 10) + u.name; best == "" || len(s) < len(best) {
			best = s
		}
	}
	return best
}

// ParseDuration parses a duration in Go's notation, which may begin with days: "200ms", "1m30s", "7d",
// "1d12h".
func ParseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	whole, err := time.ParseDuration(days + "h") // days, parsed as hours
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

// FormatDuration returns the shortest text that ParseDuration parses as exactly d: "1m", "90s", "36h",
// "2d".
func FormatDuration(d time.Duration) string {
	return shortest(int64(d), durationUnits, d.String())
}

// ParseSize parses a whole number of bytes, with or without a unit in any case: "64MiB", "1.5GB", "512
// kB", "1048576", "1048576B". As in Kubernetes, "64Mi" is 64MiB, and "64M" is 64MB.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	name := s[len(digits):]
	if !strings.HasSuffix(strings.ToUpper(name), "B") && name != "" {
		name += "B"
	} else if strings.EqualFold(name, "B") {
		name = ""
	}
	digits = strings.TrimSuffix(digits, " ")
	n, ok := new(big.Rat).SetString(digits)
	if !ok || strings.Trim(digits, "+-.0123456789") != "" {
		return 0, errors.New("not a size")
	}
	for _, u := range sizeUnits {
		if !strings.EqualFold(name, u.name) {
			continue
		}
		n.Mul(n, new(big.Rat).SetInt64(u.size))
		if !n.IsInt() || !n.Num().IsInt64() {
			return 0, errors.New("not a whole number of bytes that fits 63 bits")
		}
		return n.Num().Int64(), nil
	}
	return 0, errors.New("not a size")
}

// FormatSize returns the shortest text that ParseSize parses as exactly n: "64MiB", "1500kB",
// "1000001".
func FormatSize(n int64) string {
	if n == 0 {
		return "0"
	}
	return shortest(n, sizeUnits, "")
}
