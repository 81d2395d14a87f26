// Package config owns botwired's settings: their names, defaults, meanings and
// limits, and where each value in force came from.
//
// There is one table of settings (settings.go). Command-line flags, environment
// variables, the keys of the configuration file, the output of
// "botwired config", the README's table and every error message are made from
// it, so they cannot disagree.
//
// A value comes from, in order: a flag, the environment, the file, the default.
// Every value of every layer is checked, also one that a higher layer replaces,
// and the first unknown or malformed one stops the load with an *Error, which
// is one line and holds no secret.
package config

import (
	"path"
	"time"
)

// NoLimit as StaleIfError means that a settled copy answers however old it is.
const NoLimit time.Duration = -1

// Embedded is the value of upstream.url that runs the memory service inside the
// daemon instead of asking one over the network.
const Embedded = "embedded"

// Config is a complete, validated configuration. Load makes it; after that
// nothing changes it, so it may be read from any goroutine.
type Config struct {
	Listen         string   // "host:port", or "unix://" and an absolute path
	AllowedHosts   []string // further names accepted in Host, lower case, without ports
	AllowedOrigins []string // Origins that may call, lower case, as a browser writes them
	DataDir        string   // absolute

	Upstream   Upstream
	Embedded   EmbeddedUpstream
	Cache      Cache
	Journal    Journal
	Flush      Flush
	Quota      Quota
	Auth       Auth
	Log        Log
	Namespaces []Override // in file order; the first match wins
}

// Upstream says which memory service the daemon stands in front of and how
// patiently it is asked.
type Upstream struct {
	URL          string            // without a trailing slash, or Embedded
	MovedFrom    string            // the URL that the same service had before, or Embedded, or ""
	Timeout      time.Duration     // one attempt; positive
	LateWindow   time.Duration     // contract 14
	ReadPatience time.Duration     // contract 9
	Concurrency  int               // requests under way at once; at least 1
	Headers      map[string]string // canonical name to value; the values are secrets
}

// EmbeddedUpstream shapes the memory service that runs inside the daemon.
type EmbeddedUpstream struct {
	Latency time.Duration
}

// Cache bounds the answers kept in memory, their freshness, and the settled copies on
// the disk.
type Cache struct {
	Memory               int64 // bytes of entries; positive
	Disk                 int64 // bytes of settled copies; at least 1 MiB
	FreshFor             time.Duration
	StaleWhileRevalidate time.Duration // counted from the end of FreshFor
	StaleIfError         time.Duration // or NoLimit
	AbsentFor            time.Duration
}

// Journal bounds what is kept on disk (contract 3).
type Journal struct {
	MaxBytes    int64 // pending writes and dead letters; positive
	DiskReserve int64 // bytes left free on the file system
}

// Flush paces the way upstream.
type Flush struct {
	Linger         time.Duration
	BackoffInitial time.Duration // positive, at most BackoffMax
	BackoffMax     time.Duration
	DrainTimeout   time.Duration // contract 22
}

// Quota is what upstream allows.
type Quota struct {
	WritesPerDay int // per namespace; 0 is no quota
}

// Auth says what callers must send.
type Auth struct {
	TokenFile string // absolute, or "" if no token is asked for; see Config.Token
}

// Log says what is logged and how.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // text, json, or "": text on a terminal and JSON elsewhere
}

// Override replaces some settings for the namespaces that match a pattern.
type Override struct {
	Match  string            // a pattern of path.Match
	Set    map[string]string // what is overridden, by setting name, as printed
	Policy Policy            // resolved: everything not in Set is as elsewhere
}

// Policy is what applies to one namespace.
type Policy struct {
	FreshFor             time.Duration
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration // or NoLimit
	AbsentFor            time.Duration
	Linger               time.Duration
	WritesPerDay         int // 0 is no quota
}

// For returns what applies to a namespace: the first override that matches it,
// or else the general settings. It does not allocate.
func (c *Config) For(namespace string) Policy {
	for i := range c.Namespaces {
		if ok, _ := path.Match(c.Namespaces[i].Match, namespace); ok {
			return c.Namespaces[i].Policy
		}
	}
	return c.policy()
}

func (c *Config) policy() Policy {
	return Policy{
		FreshFor:             c.Cache.FreshFor,
		StaleWhileRevalidate: c.Cache.StaleWhileRevalidate,
		StaleIfError:         c.Cache.StaleIfError,
		AbsentFor:            c.Cache.AbsentFor,
		Linger:               c.Flush.Linger,
		WritesPerDay:         c.Quota.WritesPerDay,
	}
}
