// Package config owns botwired's settings: their names, defaults, meanings and limits, and the source
// of each value in force.
//
// There is one table of settings (settings.go). The command line's flags, the environment's variables,
// the keys of the configuration file, the output of "botwired config", docs/settings.md and every error
// message come from it, so they cannot disagree.
//
// A flag overrides the environment, the environment overrides the file, and the file overrides the
// default. Load checks every value of every layer, even one that a higher layer overrides. Load returns
// the first unknown or malformed value as an *Error, which is one line and holds no secret.
package config

import "time"

// NoLimit is the value of StaleIfError for no limit: a settled copy of any age may answer.
const NoLimit time.Duration = -1

// Embedded is the value of upstream.url that runs the memory service inside the daemon instead of
// reaching one over the network.
const Embedded = "embedded"

// AssumeAbsent is the value of Offline that answers 404 for an unknown entry while upstream cannot be
// asked.
const AssumeAbsent = "assume-absent"

// Config is a complete, validated configuration. Nothing changes it after Load, so any goroutine may
// read it.
type Config struct {
	Listen         string   // "host:port", or "unix://" and an absolute path
	AllowedHosts   []string // additional names accepted in Host, lower case, without ports
	AllowedOrigins []string // Origins that may call, lower case, as browsers send them
	DataDir        string   // absolute; "" if the user has no home and does not set it: see RequireDataDir

	Upstream   Upstream
	Embedded   EmbeddedUpstream
	Cache      Cache
	History    History
	Journal    Journal
	Flush      Flush
	Auth       Auth
	Seal       Seal
	Log        Log
	Policy                // for the namespaces that match no override
	Namespaces []Override // in file order: see For
}

// Upstream says which memory service the daemon uses, and how long it waits for it.
type Upstream struct {
	URL         string            // as [ParseUpstream] returns it
	Timeout     time.Duration     // of one attempt; positive
	LateWindow  time.Duration     // how long an unanswered request may still take effect (contract 14)
	Concurrency int               // requests in flight at once; at least 1
	Headers     map[string]string // canonical name to value; the values are secrets
	NATS        NATS
}

// EmbeddedUpstream configures the memory service that runs inside the daemon.
type EmbeddedUpstream struct {
	Latency time.Duration
}

// Cache limits the answers in memory and the settled copies on the disk.
type Cache struct {
	Memory int64 // bytes of entries; positive
	Disk   int64 // bytes of settled copies; at least 1 MiB
}

// History limits the older versions of entries on the disk.
type History struct {
	Disk int64 // bytes; at least 1 MiB
}

// Journal limits the journal on the disk (contract 3).
type Journal struct {
	MaxBytes    int64 // pending writes and dead letters; positive
	DiskReserve int64 // bytes that stay free on the file system
}

// Flush says how writes go upstream.
type Flush struct {
	DrainTimeout time.Duration // contract 22
}

// Quota holds the limits that upstream sets.
type Quota struct {
	WritesPerDay int           // per namespace and Period; 0 means no quota
	Period       time.Duration // at least a second
	MaxAge       time.Duration // how long a write waits to save quota, while quota is left
	// NamespaceBytes is the most that a namespace may hold upstream, as a listing counts it; 0 means that nobody knows.
	NamespaceBytes int64
}

// Auth says what callers must send.
type Auth struct {
	TokenFile string // absolute, or "" if callers need no token; see Config.Token
}

// Seal says with which keys the daemon seals namespaces.
type Seal struct {
	KeyFile string // absolute, or "" if no namespace is sealed
}

// Log says what the daemon logs.
type Log struct {
	Level string // debug, info, warn or error
}

// Override overrides some settings for the namespaces that match a pattern.
type Override struct {
	Match  string   // a pattern of path.Match
	Set    []string // the names of the overridden settings, in the order of the documentation
	Policy Policy   // their values; the other settings have none here
	Line   int      // in the file, from 1; 0 for other sources
}

// Policy holds the settings of one namespace.
type Policy struct {
	FreshFor             time.Duration
	StaleWhileRevalidate time.Duration // counted from the end of FreshFor
	StaleIfError         time.Duration // or NoLimit
	AbsentFor            time.Duration
	Linger               time.Duration
	Quota                Quota

	Offline string // AssumeAbsent or "refuse"

	// In the general policy, these have their defaults: only an entry of Namespaces can set them.
	WriteThrough bool // an acknowledgement means that upstream has the write
	Prefetch     bool // values are fetched before anybody reads them
	Sealed       bool // upstream gets sealed names and values only
}

// For returns the settings of a namespace. Each comes from the first override that matches the namespace
// and sets it, or else from the general settings. For does not allocate.
func (c *Config) For(namespace string) Policy {
	p := c.Policy
	for i := len(c.Namespaces) - 1; i >= 0; i-- { // an earlier override replaces what a later one has set
		if o := &c.Namespaces[i]; o.matches(namespace) {
			p.take(o)
		}
	}
	return p
}
