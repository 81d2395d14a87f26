package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

type sizeUnit struct {
	name  string
	bytes int64
}

// sizeUnits lists the units from the largest, powers of 1024 before powers of 1000. It
// lacks "M" and "Mi": people disagree on which of the two they mean.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"TiB", 1 << 40}, {"TB", 1e12},
		{"GiB", 1 << 30}, {"GB", 1e9},
		{"MiB", 1 << 20}, {"MB", 1e6},
		{"KiB", 1 << 10}, {"kB", 1e3},
	}
}

// ParseSize reads a whole number of bytes, with or without a unit in any case:
// "64MiB", "64MB", "512 kB", "1048576", "1048576B".
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	name := s[len(digits):]
	n, err := strconv.ParseInt(strings.TrimSuffix(digits, " "), 10, 64)
	if err != nil {
		return 0, errors.New("not a size")
	}
	if name == "" || strings.EqualFold(name, "B") {
		return n, nil
	}
	for _, unit := range sizeUnits() {
		if !strings.EqualFold(name, unit.name) {
			continue
		}
		if n > math.MaxInt64/unit.bytes || n < math.MinInt64/unit.bytes {
			return 0, errors.New("not a size that fits 63 bits")
		}
		return n * unit.bytes, nil
	}
	return 0, errors.New("not a size")
}

// FormatSize returns the shortest text that ParseSize reads as exactly n: "64MiB",
// "1500kB", "1000001". Of equally short texts it returns the one with the larger unit.
func FormatSize(n int64) string {
	best := strconv.FormatInt(n, 10)
	if n == 0 {
		return best
	}
	units := sizeUnits()
	for i := len(units) - 1; i >= 0; i-- {
		if n%units[i].bytes != 0 {
			continue
		}
		if s := strconv.FormatInt(n/units[i].bytes, 10) + units[i].name; len(s) <= len(best) {
			best = s
		}
	}
	return best
}
