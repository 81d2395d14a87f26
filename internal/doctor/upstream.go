package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/natskv"
)

const (
	// probeTimeout limits each request of the probe. A shorter upstream.timeout takes precedence.
	probeTimeout = 8 * time.Second
	// mostProbes is how many requests the probe makes, within probesWithin: only reads, which use no
	// quota.
	mostProbes   = 5
	probesWithin = 5 * time.Second
	// farClock is how much the clocks may differ. The fence corrects for the difference; expiry dates
	// and people do not. With NATS, conflicts between hosts are decided by their clocks, and farServers
	// is how much those may differ.
	farClock   = 5 * time.Second
	farServers = time.Second
	// dateTick is how far upstream's clock may be ahead of the Date in its answer: the header drops up
	// to a second, and some servers update it only once a second.
	dateTick = 2250 * time.Millisecond
	// enoughReplicas is how many servers a bucket needs to survive the loss of one.
	enoughReplicas = 3
)

// probeID is an entry that nobody writes.
var probeID = journal.ID{Namespace: "botwired-doctor", Key: "probe"}

// answered is one answer of upstream: its Date, and when the request was sent and the answer received.
type answered struct{ date, sent, received time.Time }

// upstream reaches upstream as the daemon would, and checks its answers. It does not check an embedded
// upstream.
func (e *examination) upstream(ctx context.Context) []Finding {
	c, _ := e.examined(ctx)
	stranger := c.Upstream.Identity() != e.loaded.Config.Upstream.Identity() // this shell does not have the daemon's secrets
	//exhaustive:enforce
	switch c.Upstream.Kind() {
	case config.KindEmbedded:
		return []Finding{none("upstream", "it runs inside the daemon")}
	case config.KindNATS:
		return append(examineCluster(ctx, c, stranger), e.brokenWatch(ctx)...)
	case config.KindBotWire:
	}
	u, err := url.Parse(c.Upstream.URL)
	if err != nil {
		return []Finding{fail("upstream", "export BOTWIRED_UPSTREAM_URL=https://botwire.dev", "%s", err)}
	}
	answers, err := probe(ctx, c, u)
	var trips []time.Duration
	for _, a := range answers {
		trips = append(trips, a.received.Sub(a.sent))
	}
	return []Finding{reachFinding(u, err, stranger, trips), dateFinding(answers)}
}

// probe requests an entry that does not exist. err is nil if upstream answers as BotWire does.
func probe(ctx context.Context, c *config.Config, u *url.URL) (answers []answered, err error) {
	opts := engines.BotWire(c)
	opts.URL, opts.Timeout = u, min(opts.Timeout, probeTimeout)
	opts.OnAnswer = func(date, sent, received time.Time) { answers = append(answers, answered{date, sent, received}) }
	client := botwire.NewClient(opts)
	defer client.Close()
	end := time.Now().Add(probesWithin)
	for i := 0; i < mostProbes && err == nil && time.Now().Before(end); i++ {
		_, err = client.Get(ctx, probeID)
	}
	return answers, err
}

// reachFinding says how the probe ended: with upstream's answer, with another server's, or with none.
func reachFinding(u *url.URL, err error, stranger bool, trips []time.Duration) Finding {
	const name = "upstream"
	look := "curl -i " + attach.ShellWord(u.JoinPath("memory", probeID.Namespace, probeID.Key).String())
	failed, ok := errors.AsType[*upstream.Error](err)
	switch {
	case err == nil:
		return good(name, "%s answers as BotWire does, and lets this machine in%s", u.Host, medianOf(trips))
	case !ok || failed.Status == 0:
		return fail(name, look, "%s", err)
	}
	switch status := failed.Status; {
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		if stranger {
			return none(name, "upstream does not let this command in (%s), which has none of the daemon's upstream.headers", failed.Reason)
		}
		return fail(name, `export BOTWIRED_UPSTREAM_HEADERS='{"Authorization": {"file": "/path/of/secret"}}'`,
			"upstream refuses access (%s): if it wants a key, name the file that holds the header's value with", failed.Reason)
	case status == http.StatusTooManyRequests:
		return warn(name, look, "upstream has throttled this machine (%s)", failed.Reason)
	case status >= http.StatusInternalServerError:
		return fail(name, look, "upstream is unwell (%s)", failed.Reason)
	}
	return fail(name, look, "something else answers in BotWire's place, such as a network's login page, or upstream.url is wrong (%s); see its answer with", failed.Reason)
}

// medianOf says how long a request takes, after the finding that it belongs to.
func medianOf(trips []time.Duration) string {
	if len(trips) == 0 {
		return ""
	}
	slices.Sort(trips)
	return "; a request takes " + trips[len(trips)/2].Round(100*time.Microsecond).String()
}

// dateFinding estimates the least difference between this machine's clock and upstream's: each Date
// lies between the sending of its request and the arrival of its answer.
func dateFinding(answers []answered) Finding {
	ahead, behind, known := time.Duration(0), time.Duration(0), false
	for _, a := range answers {
		if !a.date.IsZero() {
			known = true
			ahead = max(ahead, a.sent.Sub(a.date)-dateTick)
			behind = max(behind, a.date.Sub(a.received))
		}
	}
	if !known {
		return none("clock", "no answer of upstream's says what time it is")
	}
	return clockFinding(ahead, behind, farClock)
}

func clockFinding(ahead, behind, far time.Duration) Finding {
	const name = "clock"
	switch {
	case ahead > far:
		return warn(name, setClock(), "this machine's clock is %s ahead of upstream's", ahead.Round(100*time.Millisecond))
	case behind > far:
		return warn(name, setClock(), "this machine's clock is %s behind upstream's", behind.Round(100*time.Millisecond))
	}
	return good(name, "within %s of upstream's", far)
}

func setClock() string {
	switch runtime.GOOS {
	case "windows":
		return "w32tm /resync"
	case "darwin":
		return "sudo sntp -sS time.apple.com"
	}
	return "sudo timedatectl set-ntp true"
}

// examineCluster checks the way to a bucket, and that it is on enough servers.
func examineCluster(ctx context.Context, c *config.Config, stranger bool) []Finding {
	opts, err := engines.Cluster(c, "", probeTimeout, slog.New(slog.DiscardHandler))
	if err != nil {
		return []Finding{fail("upstream", "botwired config", "%s", words.Unusable(err))}
	}
	asDoctor(&opts, stranger)
	x := natskv.Examine(ctx, opts)
	found := []Finding{serverFinding(x, opts.Servers, stranger)}
	if x.Connect == nil {
		found = append(found, bucketFinding(x, &c.Upstream.NATS), serversClock(x))
	}
	return found
}

// brokenWatch returns a finding if the daemon's watch of the bucket is broken.
func (e *examination) brokenWatch(ctx context.Context) []Finding {
	s, err := e.ask(ctx)
	if err != nil || !s.Upstream.Watch.IsBroken(e.now()) {
		return nil
	}
	w := s.Upstream.Watch
	return []Finding{warn("watch", "nats consumer report KV_"+w.Bucket,
		"the daemon sees no changes of other hosts (%s): copies are fresh for cache.fresh_for, and the daemon tries again by itself", w.Reason)}
}

// asDoctor changes a daemon's options for doctor. If stranger is set, the daemon has another upstream
// than this shell, and its servers do not get this shell's credentials.
func asDoctor(opts *natskv.Options, stranger bool) {
	opts.Name = "botwired doctor"
	if !stranger {
		return
	}
	opts.Access, opts.Replicas = natskv.Access{}, 0
	if opts.TLS != nil {
		opts.TLS.Certificates = nil
	}
}

func serverFinding(x *natskv.Examination, servers []string, stranger bool) Finding {
	const name = "upstream"
	all := strings.Join(servers, ", ")
	switch {
	case x.Connect == nil:
		return good(name, "%s lets this machine in%s", x.Server, medianOf(x.Trips))
	case natskv.Refuses(x.Connect) && stranger:
		return none(name, "the servers do not let this command in (%s), which has none of the daemon's credentials", x.Connect)
	case natskv.Refuses(x.Connect):
		return fail(name, "botwired config", "the servers do not let this machine in: %s; look at upstream.nats with", x.Connect)
	}
	return fail(name, "nats --server "+attach.ShellWord(all)+" rtt", "no server of %s can be used: %s", all, x.Connect)
}

func bucketFinding(x *natskv.Examination, n *config.NATS) Finding {
	const name = "bucket"
	look := "nats stream info KV_" + n.Bucket
	switch {
	case x.MarkErr != nil:
		return fail(name, "botwired serve", "%s", x.MarkErr)
	case x.Lost != "":
		return fail(name, "botwired restore --all", "the bucket %s%s: upstream has lost writes that it had confirmed, and the daemon asks it for nothing until you decide. "+
			"Is upstream.url right? To give the bucket what this host has a copy of, with the daemon running, say", n.Bucket, x.Lost)
	case x.Missing && n.Create:
		return good(name, "there is no bucket %s yet: the daemon makes it", n.Bucket)
	case x.Missing:
		return fail(name, "export BOTWIRED_UPSTREAM_NATS_CREATE=true", "there is no bucket %s, and the daemon may not make it: make it, or correct upstream.nats.bucket", n.Bucket)
	case x.Lookup != nil:
		return fail(name, "nats account info", "%s cannot be looked up: JetStream is off, this account may not use it, or the servers have no leader, as more than half of them have to run: %s", n.Bucket, x.Lookup)
	case x.Wrong != "":
		return fail(name, look, "%s cannot keep the memory: %s", n.Bucket, x.Wrong)
	case x.NoMajority:
		return fail(name, "nats server report jetstream", "no majority of the %d servers of %s is up (away or behind: %s), so they confirm no write: start another server, until more than half of them run; which ones do is in",
			x.Replicas, n.Bucket, strings.Join(x.Behind, ", "))
	case len(x.Behind) > 0:
		return warn(name, "nats server report jetstream", "%s away or behind (%s): the memory is on fewer disks than the %d that it should be on",
			words.Plural(len(x.Behind), "server"), strings.Join(x.Behind, ", "), x.Replicas)
	case x.Replicas < enoughReplicas:
		return warn(name, fmt.Sprintf("nats stream edit KV_%s --replicas=%d", n.Bucket, enoughReplicas),
			"the bucket is on %s: with fewer than %d, a server that stops stops all writes, and its disk may be the only one", words.Plural(x.Replicas, "server"), enoughReplicas)
	case len(x.Dubious) > 0:
		return warn(name, look, "%s: %s", n.Bucket, strings.Join(x.Dubious, "; "))
	}
	return good(name, "%s is on %d servers", n.Bucket, x.Replicas)
}

// serversClock estimates the least difference between this machine's clock and the servers': the later
// write wins, by its writer's clock.
func serversClock(x *natskv.Examination) Finding {
	if x.ServerTime.IsZero() {
		return none("clock", "no answer of the servers says what time it is")
	}
	return clockFinding(x.Asked.Sub(x.ServerTime), x.ServerTime.Sub(x.Answered), farServers)
}
