package config_test

import (
	"testing"

	"github.com/botwired/botwired/config"
)

// Values that would overflow, or with which the daemon could not start, are rejected. The error says
// what is accepted.
func TestBounds(t *testing.T) {
	for name, values := range map[string]map[string]string{
		"cache.memory":                 {"9223372036854775807": "at most 64GiB", "100TiB": "at most 64GiB", "0": "above zero"},
		"history.disk":                 {"9223372036854775807": "at most 1024TiB", "1025TiB": "at most 1024TiB"},
		"cache.disk":                   {"9223372036854775807": "at most 1024TiB", "1025TiB": "at most 1024TiB"},
		"journal.max_bytes":            {"9223372036854775807": "at most 1024TiB", "0": "above zero"},
		"journal.disk_reserve":         {"9223372036854775807": "at most 1024TiB", "-1": "zero or more"},
		"upstream.concurrency":         {"9223372036854775807": "1024", "0": "from 1"},
		"quota.writes_per_day":         {"9223372036854775807": "2147483647"},
		"quota.period":                 {"36501d": "at most 36500d", "999ms": "at least 1s, such as"},
		"quota.max_age":                {"106751d": "at most 36500d"},
		"quota.namespace_bytes":        {"9223372036854775807": "at most 1024TiB"},
		"upstream.timeout":             {"2562047h": "at most 36500d", "0": "above zero"},
		"upstream.late_window":         {"106751d": "at most 36500d"},
		"flush.linger":                 {"106751d": "at most 36500d"},
		"flush.drain_timeout":          {"106751d": "at most 36500d"},
		"cache.stale_if_error":         {"106751d": `at most 36500d, or "no limit"`, "-1s": `such as 200ms, 1m30s or 2d, or "no limit"`},
		"embedded.latency":             {"876001h": "at most 36500d"},
		"cache.fresh_for":              {"876001h": "at most 36500d"},
		"cache.absent_for":             {"876001h": "at most 36500d"},
		"cache.stale_while_revalidate": {"876001h": "at most 36500d"},
	} {
		for value, expected := range values {
			message := refused(t, config.Sources{Flags: map[string]string{name: value}})
			wantAll(t, message, name, value, expected)
		}
	}
	for name, value := range map[string]string{
		"cache.memory": "64MiB", "cache.disk": "1024TiB", "history.disk": "1024TiB", "journal.max_bytes": "1024TiB", "journal.disk_reserve": "1024TiB",
		"flush.linger": "36500d", "upstream.concurrency": "1024",
	} {
		load(t, config.Sources{Flags: map[string]string{name: value}})
	}
}
