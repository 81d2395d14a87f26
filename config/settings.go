package config

import (
	"slices"
	"strings"
	"time"
)

// Settings returns the daemon's settings, in the order of the documentation. To add a setting, add a
// row to this file and a field to Config. To let namespaces override it, add the field to Policy
// instead, and set Overridable in the row. The rows of namespaceSettings only exist for namespaces.
func Settings() []Setting {
	return []Setting{
		{Name: "listen", Default: "127.0.0.1:2689",
			Doc:   "address, or `unix:///path`; an address off loopback needs a token",
			codec: listenAddress(func(c *Config) *string { return &c.Listen })},
		{Name: "allowed_hosts", Default: "[]", Documented: "none", Live: true,
			Doc:   "further names accepted in the `Host` header, such as the service's name in a compose file",
			codec: list(hostName(), func(c *Config) *[]string { return &c.AllowedHosts })},
		{Name: "allowed_origins", Default: "[]", Documented: "none", Live: true,
			Doc:   "origins of browser extensions or desktop shells that may call; every other foreign one is refused",
			codec: list(originName(), func(c *Config) *[]string { return &c.AllowedOrigins })},
		{Name: "data_dir", Documented: "state directory of the platform, `/botwired`",
			Doc:    "the daemon's files; mode 0700; one daemon at a time",
			codec:  directory(func(c *Config) *string { return &c.DataDir }),
			derive: func(c *Config, p places) { c.DataDir = p.stateDir() }},
		{Name: "offline", Default: "refuse", Overridable: true, Live: true,
			Doc:   "what is answered about an unknown entry when upstream cannot be asked: `refuse` (503) or `assume-absent` (404)",
			codec: oneOf([]string{"refuse", AssumeAbsent}, func(c *Config) *string { return &c.Offline })},
		{Name: "upstream.url", Default: "https://botwire.dev", Alias: "upstream",
			Doc:   "the memory service: any BotWire-compatible URL, without `/memory` (plain `http` only on loopback), the servers of a NATS cluster (`nats://host1,host2`, with TLS unless all are on loopback), or `embedded`",
			codec: upstreamURL(func(c *Config) *string { return &c.Upstream.URL })},
		{Name: "upstream.timeout", Default: "10s",
			Doc:   "the longest that one attempt takes",
			codec: duration(positive, func(c *Config) *time.Duration { return &c.Upstream.Timeout })},
		{Name: "upstream.late_window", Default: "30s",
			Doc:   "how long upstream may still carry out a request that it has not answered; nothing more of that entry is sent before, and after a kill with writes pending nothing at all",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.Upstream.LateWindow })},
		{Name: "upstream.concurrency", Default: "16",
			Doc:   "the most requests in flight upstream, reads and writes together; fewer while upstream takes no more",
			codec: count(1, maxConcurrency, func(c *Config) *int { return &c.Upstream.Concurrency })},
		{Name: "upstream.headers", Default: "{}", Documented: "none", Secret: true, Live: true,
			Doc:   "sent with every upstream request; a value may come from a file: `{file: /path}`",
			codec: headers(func(c *Config) *map[string]string { return &c.Upstream.Headers })},
		{Name: "upstream.nats.bucket", Default: "botwire",
			Doc:   "with `nats://`, the key-value bucket that holds the memory",
			codec: bucket(func(c *Config) *string { return &c.Upstream.NATS.Bucket })},
		{Name: "upstream.nats.create", Default: "true",
			Doc:   "make the bucket if there is none",
			codec: truth(func(c *Config) *bool { return &c.Upstream.NATS.Create })},
		{Name: "upstream.nats.replicas", Default: "3",
			Doc:   "how many servers keep a bucket that botwired makes; fewer than `3` lose the memory with one disk",
			codec: count(1, maxReplicas, func(c *Config) *int { return &c.Upstream.NATS.Replicas })},
		{Name: "upstream.nats.context", Documented: "none", SecretFile: true, isName: isContextName,
			Doc:   "how botwired signs in: a context of NATS' own command line, by its name (`nats context ls`) or as the path of its file; `upstream.url` says where the servers are",
			codec: natsContext(func(c *Config) *string { return &c.Upstream.NATS.Context })},
		{Name: "embedded.latency", Default: "50ms", Alias: "latency",
			Doc:   "the embedded upstream's delay",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.Embedded.Latency })},
		{Name: "cache.memory", Default: "64MiB",
			Doc:   "budget of the cache in memory, in bytes of entries",
			codec: size(positive, maxMemory, func(c *Config) *int64 { return &c.Cache.Memory })},
		{Name: "cache.fresh_for", Default: "10s", Overridable: true, Live: true,
			Doc:   "how long a settled copy answers without asking upstream",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.FreshFor })},
		{Name: "cache.stale_while_revalidate", Default: "1m", Overridable: true, Live: true,
			Doc:   "how long after `cache.fresh_for` a copy still answers at once, while botwired asks upstream",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.StaleWhileRevalidate })},
		{Name: "cache.stale_if_error", Default: "no limit", Documented: "no limit", Overridable: true, Live: true,
			Doc:   "how old a settled copy may be that answers while upstream cannot be asked",
			codec: durationOr(`, or "no limit"`, zeroOrMore, func(c *Config) *time.Duration { return &c.StaleIfError })},
		{Name: "cache.absent_for", Default: "2s", Overridable: true, Live: true,
			Doc:   "how long a known absence answers",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.AbsentFor })},
		{Name: "cache.disk", Default: "1GiB",
			Doc:   "settled copies on the disk, least recently used out first",
			codec: size(oneMiB, maxSize, func(c *Config) *int64 { return &c.Cache.Disk })},
		{Name: "history.disk", Default: "256MiB",
			Doc:   "older versions of entries on the disk for `botwired history` and `botwired undo`, the oldest out first; what has lost a conflict of two hosts has an eighth of `journal.max_bytes` beside it",
			codec: size(oneMiB, maxSize, func(c *Config) *int64 { return &c.History.Disk })},
		{Name: "journal.max_bytes", Default: "256MiB",
			Doc:   "pending writes and dead letters; beyond it a write is refused with 507",
			codec: size(positive, maxSize, func(c *Config) *int64 { return &c.Journal.MaxBytes })},
		{Name: "journal.disk_reserve", Default: "64MiB",
			Doc:   "free space below which a write is refused with 507",
			codec: size(zeroOrMore, maxSize, func(c *Config) *int64 { return &c.Journal.DiskReserve })},
		{Name: "flush.linger", Default: "100ms", Overridable: true, Live: true,
			Doc:   "the least time a write waits for a newer one to the same entry",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.Linger })},
		{Name: "flush.drain_timeout", Default: "10s", Live: true,
			Doc:   "at shutdown, how long pending writes are still carried upstream; the rest is kept",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.Flush.DrainTimeout })},
		{Name: "quota.writes_per_day", Documented: "`1000` for botwire.dev, else none (`0`)", Overridable: true, Live: true,
			Doc:   "per namespace, the upstream writes within one `quota.period`; botwired paces itself by it",
			codec: count(0, maxQuota, func(c *Config) *int { return &c.Quota.WritesPerDay }),
			derive: func(c *Config, _ places) {
				if isBotWires(c.Upstream.URL) {
					c.Quota.WritesPerDay = freeWritesPerDay
				}
			}},
		{Name: "quota.period", Default: "24h", Overridable: true, Live: true,
			Doc:   "the window of the quota; windows begin at multiples of it since 1970, in UTC",
			codec: duration(oneSecond, func(c *Config) *time.Duration { return &c.Quota.Period })},
		{Name: "quota.max_age", Default: "15m", Overridable: true, Live: true,
			Doc:   "how long a write waits at most for newer ones to its entry, to save quota; it waits longer only if the quota would not last",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.Quota.MaxAge })},
		{Name: "quota.namespace_bytes", Documented: "`50MB` for botwire.dev, else none (`0`)", Overridable: true, Live: true,
			Doc:   "about the most that a namespace may hold upstream, as LIST counts `bytes`; from 80 % of it on, the status warns",
			codec: size(zeroOrMore, maxSize, func(c *Config) *int64 { return &c.Quota.NamespaceBytes }),
			derive: func(c *Config, _ places) {
				if isBotWires(c.Upstream.URL) {
					c.Quota.NamespaceBytes = freeNamespaceBytes
				}
			}},
		{Name: "auth.token_file", Documented: "none", Live: true, SecretFile: true,
			Doc:   "file that holds the token callers must send, as `Bearer TOKEN` or as the password of a URL",
			codec: file(func(c *Config) *string { return &c.Auth.TokenFile })},
		{Name: "seal.key_file", Documented: "none",
			Doc:   "file with the keys of the namespaces that have `sealed: true`, as `botwired seal keygen` makes it; mode 0600",
			codec: file(func(c *Config) *string { return &c.Seal.KeyFile })},
		{Name: "log.level", Default: "info", Live: true,
			Doc:   "`debug`, `info`, `warn` or `error`",
			codec: oneOf([]string{"debug", "info", "warn", "error"}, func(c *Config) *string { return &c.Log.Level })},
		{Name: "namespaces", Default: "[]", Documented: "none", Live: true,
			Doc:   "list of `{match: PATTERN, ...}` that overrides cache, flush and quota settings by namespace, and sets what only a namespace has (`" + strings.Join(names(namespaceSettings()), "`, `") + "`); of several entries that match, each setting comes from the first that sets it",
			codec: overrides(func(c *Config) *[]Override { return &c.Namespaces })},
	}
}

func overridable() []Setting {
	rows := slices.DeleteFunc(Settings(), func(s Setting) bool { return !s.Overridable })
	return append(rows, namespaceSettings()...)
}

func namespaceSettings() []Setting {
	return []Setting{
		{Name: "write_through", Default: "false", Live: true,
			Doc:   "an acknowledgement means that upstream has the write",
			codec: truth(func(c *Config) *bool { return &c.WriteThrough })},
		{Name: "prefetch", Default: "false", Live: true,
			Doc:   "values are fetched before anybody reads them, while the namespace is used",
			codec: truth(func(c *Config) *bool { return &c.Prefetch })},
		{Name: "sealed", Default: "false",
			Doc:   "names and values are sealed with the keys of `seal.key_file` before they go upstream; a change counts after a restart",
			codec: truth(func(c *Config) *bool { return &c.Sealed })},
	}
}

// Setting is one row of the table: everything about a setting except its value.
type Setting struct {
	Name        string // in the file and in error messages: "flush.linger"
	Alias       string // a short flag, or ""
	Doc         string // one line of Markdown
	Default     string // as users write it; "" if Load derives it
	Documented  string // the default as Markdown, if the bare value does not say enough
	Secret      bool   // its values are never shown
	Overridable bool   // a namespace may override it
	Live        bool   // a running daemon can change it: see Reload
	SecretFile  bool   // its value is a file that holds a secret

	codec  codec
	derive func(c *Config, p places) // computes a default that depends on other settings or the platform
	isName func(value string) bool   // reports whether a value is a name, and no path; nil: none is
}

type codec struct {
	kind     string // the kind of value in --help: "duration"
	expected string // completes "expected …"
	parse    func(c *Config, v node, p places) error
	print    func(c *Config) string
	same     func(a, b *Config) bool
	copy     func(to, from *Config)   // also copies a value that parse would now reject
	show     func(text string) string // hides the secret parts of a rejected value; nil shows everything
}

// Env returns the setting's environment variable.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// Flag returns the name of the setting's flag, without dashes.
func (s Setting) Flag() string { return FlagName(s.Name) }

// Kind returns the word for the setting's values in a usage line.
func (s Setting) Kind() string { return s.codec.kind }

// IsPath reports whether a value is a path, which may be relative to the directory of the command.
func (s Setting) IsPath(value string) bool {
	return s.codec.kind == "path" && (s.isName == nil || !s.isName(value))
}

// FlagName returns the flag's name ("flush-drain-timeout") for any spelling of a setting's name
// ("flush.drain_timeout").
func FlagName(name string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(name)
}

func find(table []Setting, name string) (Setting, bool) {
	for _, s := range table {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

func isGroup(table []Setting, name string) bool {
	return slices.ContainsFunc(table, func(s Setting) bool { return strings.HasPrefix(s.Name, name+".") })
}

func names(table []Setting) []string {
	out := make([]string, len(table))
	for i, s := range table {
		out[i] = s.Name
	}
	return out
}
