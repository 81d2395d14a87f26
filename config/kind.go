package config

import (
	"slices"
	"strings"
)

// Kind is a kind of upstream. The configuration asks its row in kinds. Other code that depends on the
// kind switches over all kinds, under exhaustive:enforce: the linter then lists every place that a new
// kind has to fill in.
type Kind uint8

// The kinds of upstream.
const (
	KindBotWire  Kind = iota + 1
	KindEmbedded      // BotWire's API, served inside the daemon
	KindNATS          // a bucket of a NATS cluster
)

type kind struct {
	service   string                       // see Service
	schemes   []string                     // the texts before the colon of upstream.url, and of an identity
	form      string                       // of upstream.url, for errors
	parse     func(string) (string, error) // returns the canonical form of upstream.url
	exact     bool                         // see Exact
	noHeaders string                       // why upstream.headers must be empty; "" if it need not
	isBucket  bool                         // the bucket is the identity, and not the URL
}

// BucketSetting is the setting that identifies an upstream of [KindNATS], whose servers come and go.
const BucketSetting = "upstream.nats.bucket"

const bucketPrefix = "nats:"

//exhaustive:enforce
var kinds = map[Kind]kind{
	KindBotWire: {
		service: "BotWire", schemes: []string{"http", "https"}, parse: parseService,
		form: "http(s)://host[:port][/base] without user, query or fragment",
	},
	KindEmbedded: {service: "BotWire", schemes: []string{Embedded}, parse: parseEmbedded, form: Embedded},
	KindNATS: {
		service: "NATS", schemes: []string{"nats", "tls"}, parse: parseServers, exact: true,
		form:      "nats://host[:port],host[:port]",
		noHeaders: "none where upstream.url is nats:// or tls://, which has no headers: sign in with upstream.nats.context",
		isBucket:  true,
	},
}

// kindOf returns the kind of a URL or an identity. ok is false for a text of no kind.
func kindOf(text string) (k Kind, ok bool) {
	scheme, _, _ := strings.Cut(text, ":")
	for k, row := range kinds {
		if slices.Contains(row.schemes, strings.ToLower(scheme)) {
			return k, true
		}
	}
	return 0, false
}

// Kind returns the kind that upstream.url stands for.
func (u *Upstream) Kind() Kind {
	k, _ := kindOf(u.URL) // a valid URL has one
	return k
}

// Exact reports whether the engine compares before it writes, as upstream.Engine has it. The journal
// needs to know that before the engine is open.
func (k Kind) Exact() bool { return kinds[k].exact }

// ParseUpstream returns the canonical form of a URL in upstream.url: all spellings of a URL have one. Its
// error completes "expected …".
func ParseUpstream(text string) (string, error) {
	k, ok := kindOf(text)
	if !ok {
		return "", errUnexpected
	}
	return kinds[k].parse(text)
}

// IsBucket reports whether [BucketSetting] identifies upstream, and not its URL.
func (u *Upstream) IsBucket() bool { return kinds[u.Kind()].isBucket }

// Identity identifies an upstream; a data directory is bound to it. It is the URL, or nats:BUCKET. The
// engine's mark detects another bucket with the same name.
func (u *Upstream) Identity() string {
	if u.IsBucket() {
		return bucketPrefix + u.NATS.Bucket
	}
	return u.URL
}

// ParseIdentity returns the identity for text: an identity, or a URL that is one in canonical form.
func ParseIdentity(text string) (id string, ok bool) {
	if k, _ := kindOf(text); kinds[k].isBucket {
		name, found := strings.CutPrefix(text, bucketPrefix)
		return text, found && isBucketName(name)
	}
	id, err := ParseUpstream(text)
	return id, err == nil
}

// Service returns the service of an identity's kind. Only an upstream of the same service can be the one
// that had another identity.
func Service(identity string) string {
	k, _ := kindOf(identity)
	return kinds[k].service
}

// urlForms completes "expected …" for upstream.url.
func urlForms() string {
	var forms []string
	for k := KindBotWire; kinds[k].form != ""; k++ {
		forms = append(forms, kinds[k].form)
	}
	return strings.Join(forms, ", or ")
}
