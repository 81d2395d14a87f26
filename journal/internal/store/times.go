package store

import "time"

// Tick is the smallest difference between two times of BotWire, in seconds.
const Tick = 1e-6

// UnixNow returns the wall clock in BotWire's unit, Unix seconds.
func UnixNow() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

// Time returns the time of a number of Unix seconds.
func Time(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }

// Age returns the time since a moment of the wall clock, at least 0.
func Age(since float64) time.Duration {
	return max(0, time.Duration((UnixNow()-since)*float64(time.Second)))
}
