package config

// Kind is a kind of upstream. Code that depends on it switches over all kinds, under exhaustive:enforce:
// the linter then lists every place that a new kind has to fill in.
type Kind uint8

// The kinds of upstream.
const (
	KindBotWire  Kind = iota
	KindEmbedded      // BotWire's API, served inside the daemon
	KindNATS          // a bucket of a NATS cluster
)

// Kind returns the kind that upstream.url stands for.
func (u *Upstream) Kind() Kind {
	if _, _, ok := cutScheme(u.URL); ok {
		return KindNATS
	}
	if u.URL == Embedded {
		return KindEmbedded
	}
	return KindBotWire
}
