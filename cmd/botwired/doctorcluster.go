package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/doctor"
	"github.com/botwired/botwired/upstream/natskv"
)

const (
	// enoughReplicas is on how many servers a bucket has to lie so that one may be lost.
	enoughReplicas = 3
	// nearlyFull is the part of its limit, in percent, from which on a bucket is nearly full.
	nearlyFull = 80
)

// syncLines are what a server's configuration needs so that a power cut loses nothing.
const syncLines = "jetstream { sync_interval: always }"

// cluster checks the way to a bucket step by step, and how its servers keep it.
func (e *examination) cluster(ctx context.Context, c *config.Config, servers []string) []doctor.Finding {
	opts, err := clusterOptions(c, servers, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return []doctor.Finding{doctor.Fail("upstream", "botwired config", "%s", unusable(err))}
	}
	stranger := c.Upstream.URL != e.loaded.Config.Upstream.URL
	asDoctor(&opts, stranger)
	x := natskv.Examine(ctx, opts)
	found := []doctor.Finding{serverFinding(x, servers), signInFinding(x, stranger)}
	if x.Connect == nil {
		edit := "nats stream edit KV_" + c.Upstream.NATS.Bucket
		found = append(found, tripsFinding(x.Trips, "nats rtt"), jetStreamFinding(x), bucketFinding(x, &c.Upstream.NATS),
			replicasFinding(x, edit), roomFinding(x, edit), serversClock(x))
	}
	return found
}

// asDoctor makes options of a daemon's those of doctor. The servers of a stranger, a daemon with another
// upstream than this shell's, get none of this shell's credentials.
func asDoctor(opts *natskv.Options, stranger bool) {
	opts.Timeout = min(opts.Timeout, probeTimeout)
	opts.Name = "botwired doctor"
	if !stranger {
		return
	}
	opts.Access, opts.Replicas = natskv.Access{}, 0
	if opts.TLS != nil {
		opts.TLS.Certificates = nil
	}
}

func serverFinding(x *natskv.Examination, servers []string) doctor.Finding {
	const name = "connection"
	switch {
	case x.Connect != nil && !natskv.Refuses(x.Connect):
		first := strings.NewReplacer("nats://", "", "tls://", "", "[", "", "]", "").Replace(servers[0])
		host, port := first[:strings.LastIndex(first, ":")], first[strings.LastIndex(first, ":")+1:]
		return doctor.Fail(name, "nc -vz "+shellWord(host)+" "+port, "no server of %s can be used: %s", strings.Join(servers, ", "), x.Connect)
	case x.Connect != nil:
		return doctor.Good(name, "a server of %s answers", strings.Join(servers, ", "))
	}
	of := "which is alone"
	if x.Cluster != "" {
		of = "of the cluster " + x.Cluster
	}
	return doctor.Good(name, "%s, nats-server %s, %s", x.Server, x.Version, of)
}

func signInFinding(x *natskv.Examination, stranger bool) doctor.Finding {
	const name = "sign-in"
	switch {
	case natskv.Refuses(x.Connect) && stranger:
		return doctor.None(name, "the servers do not let this command in (%s), which has none of the daemon's credentials", x.Connect)
	case natskv.Refuses(x.Connect):
		return doctor.Fail(name, "export BOTWIRED_UPSTREAM_NATS_CONTEXT=botwire", "the servers do not let this machine in: %s", x.Connect)
	case x.Connect != nil:
		return doctor.None(name, "there is no connection")
	case !x.Secured:
		return doctor.Good(name, "the servers let this machine in, without TLS: they are on it")
	}
	return doctor.Good(name, "the servers let this machine in, over TLS")
}

func jetStreamFinding(x *natskv.Examination) doctor.Finding {
	const name = "JetStream"
	switch {
	case natskv.NoJetStream(x.JetStream):
		return doctor.Fail(name, "nats account info", "it is off, or this account may not use it: write \"%s\" into nats-server.conf, and give the account JetStream (%s)", syncLines, x.JetStream)
	case x.JetStream != nil:
		return doctor.Fail(name, "nats account info", "no answer: the servers have no leader now, or this user may not ask: %s", x.JetStream)
	}
	return doctor.Good(name, "it is on")
}

func bucketFinding(x *natskv.Examination, n *config.NATS) doctor.Finding {
	const name = "bucket"
	look := "nats stream info KV_" + n.Bucket
	switch {
	case x.JetStream != nil:
		return doctor.None(name, "nobody can ask for it")
	case x.Missing && n.Create:
		return doctor.Good(name, "there is no bucket %s yet: the daemon makes it", n.Bucket)
	case x.Missing:
		return doctor.Fail(name, "export BOTWIRED_UPSTREAM_NATS_CREATE=true", "there is no bucket %s, and the daemon may not make it: make it, or correct upstream.nats.bucket", n.Bucket)
	case x.Lookup != nil:
		return doctor.Fail(name, look, "%s cannot be looked up: %s", n.Bucket, x.Lookup)
	case x.Wrong != "":
		return doctor.Fail(name, look, "%s cannot keep the memory: %s", n.Bucket, x.Wrong)
	case len(x.Dubious) > 0:
		return doctor.Warn(name, look, "%s: %s", n.Bucket, strings.Join(x.Dubious, "; "))
	}
	return doctor.Good(name, "%s, in files, with %s of an entry", n.Bucket, plural(int(x.History), "version"))
}

func replicasFinding(x *natskv.Examination, edit string) doctor.Finding {
	const name = "replicas"
	switch {
	case x.Replicas == 0:
		return doctor.None(name, "there is no bucket")
	case len(x.Behind) > 0:
		return doctor.Warn(name, "nats server report jetstream", "%s away or behind (%s): the memory is on fewer disks than the %d that it should be on",
			plural(len(x.Behind), "server"), strings.Join(x.Behind, ", "), x.Replicas)
	case x.Replicas < enoughReplicas:
		return doctor.Warn(name, fmt.Sprintf("%s --replicas=%d", edit, enoughReplicas),
			"the bucket is on %s: with fewer than %d, a server that stops stops all writes, and its disk may be the only one", plural(x.Replicas, "server"), enoughReplicas)
	}
	return doctor.Good(name, "the bucket is on %d servers, and its leader is %s", x.Replicas, cmp.Or(x.Leader, "unknown"))
}

func roomFinding(x *natskv.Examination, edit string) doctor.Finding {
	const name = "bucket's room"
	switch {
	case x.Replicas == 0:
		return doctor.None(name, "there is no bucket")
	case x.MaxBytes <= 0:
		return doctor.Good(name, "%s, without a limit", sizeOf(x.Bytes))
	}
	text := fmt.Sprintf("%s of %s", sizeOf(x.Bytes), sizeOf(uint64(x.MaxBytes)))
	if x.Bytes*100 >= uint64(x.MaxBytes)*nearlyFull {
		return doctor.Warn(name, edit+" --max-bytes=-1", "%s: a full bucket takes no more writes; they wait here", text)
	}
	return doctor.Good(name, "%s", text)
}

// serversClock bounds how far this machine's clock is from the server's: the later write wins, by
// the clock of who made it.
func serversClock(x *natskv.Examination) doctor.Finding {
	const name = "clock"
	if x.ServerTime.IsZero() {
		return doctor.None(name, "no answer of the servers says what time it is")
	}
	ahead, behind := x.Asked.Sub(x.ServerTime), x.ServerTime.Sub(x.Answered)
	const matters = "writes of hosts whose clocks are apart win and lose by them"
	switch {
	case ahead > time.Second:
		return doctor.Warn(name, setClock(), "this machine's clock is %s ahead of the server's: %s", shortly(ahead), matters)
	case behind > time.Second:
		return doctor.Warn(name, setClock(), "this machine's clock is %s behind the server's: %s", shortly(behind), matters)
	}
	return doctor.Good(name, "within %s of the server's", shortly(max(ahead, behind, 0)+x.Answered.Sub(x.Asked)))
}
