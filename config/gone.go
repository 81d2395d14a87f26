package config

// gone returns, for each removed setting, a sentence about what replaces it.
func gone() map[string]string {
	const pauses = "botwired makes the pauses between attempts itself, 200 ms at first and 30 s at most, and shorter ones for an upstream.timeout below 10 s"
	const inContext = "upstream.nats.context names a context of NATS' own command line (nats context save), whose field it is: "
	return map[string]string{
		"upstream.moved_from":            "a new address of the same service is said once, with the daemon stopped: botwired recover --moved-from OLD",
		"upstream.nats.history":          "a bucket that botwired makes keeps 8 versions of an entry: nats stream edit --max-msgs-per-subject changes that",
		"upstream.nats.tombstones_for":   "a delete is remembered upstream for 90 days",
		"upstream.nats.credentials_file": inContext + "creds",
		"upstream.nats.user":             inContext + "user",
		"upstream.nats.password_file":    inContext + "password",
		"upstream.nats.ca_file":          inContext + "ca",
		"upstream.nats.cert_file":        inContext + "cert",
		"upstream.nats.key_file":         inContext + "key",
		"upstream.nats.monitors":         "botwired does not ask the servers' monitoring: write \"jetstream { sync_interval: always }\" into each nats-server.conf",
		"upstream.read_patience":         "a read of something unknown waits 5 s for upstream, or half of upstream.timeout if that is less",
		"flush.backoff_initial":          pauses,
		"flush.backoff_max":              pauses,
		"amnesia.entries":                "botwired asks a person when upstream lacks 10 entries of a namespace that it has confirmed, and half of them",
		"amnesia.share":                  "botwired asks a person when upstream lacks 10 entries of a namespace that it has confirmed, and half of them",
		"exclusive":                      "set a long cache.fresh_for and flush.fence: false for a namespace that only this daemon writes",
		"log.format":                     "the log is text on a terminal, and JSON elsewhere, such as behind a pipe",
	}
}

// isGone is the prefix of an [Error.Expected] about a removed setting. Such a text does not complete
// "expected ...".
const isGone = "this setting no longer exists, remove it: "
