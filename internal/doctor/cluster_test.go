package doctor

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/upstream/natskv"
)

// examinedBucket returns a healthy bucket.
func examinedBucket() *natskv.Examination {
	now := time.Now()
	return &natskv.Examination{
		Server: "nats://10.0.0.1:4222", Trips: []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}, Replicas: 3,
		Asked: now, ServerTime: now.Add(time.Millisecond), Answered: now.Add(2 * time.Millisecond),
	}
}

// judged returns all findings about a bucket.
func judged(x *natskv.Examination, n *config.NATS) []Finding {
	return []Finding{serverFinding(x, []string{"nats://10.0.0.1:4222"}, false), bucketFinding(x, n), serversClock(x)}
}

func TestDoctorOfAHealthyBucket(t *testing.T) {
	all := judged(examinedBucket(), &config.NATS{Bucket: "botwire", Create: true})
	for _, f := range all {
		if f.Result != OK || f.Remedy != "" {
			t.Errorf("%+v", f)
		}
	}
	wantFinding(t, all, "upstream", OK, "", "nats://10.0.0.1:4222", "a request takes 2ms")
	wantFinding(t, all, "bucket", OK, "", "on 3 servers")
}

// Everything that endangers the memory is found, with a remedy.
func TestDoctorOfABucket(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*natskv.Examination)
		create bool
		check  string
		result Result
		remedy string
		says   []string
	}{
		"nobody answers": {func(x *natskv.Examination) { x.Connect = errors.New("no servers available") }, true,
			"upstream", Failed, "nats --server nats://10.0.0.1:4222 rtt", []string{"no servers available"}},
		"no bucket yet":      {func(x *natskv.Examination) { x.Missing = true }, true, "bucket", OK, "", []string{"the daemon makes it"}},
		"no bucket for good": {func(x *natskv.Examination) { x.Missing = true }, false, "bucket", Failed, "export BOTWIRED_UPSTREAM_NATS_CREATE=true", []string{"may not make it"}},
		"stale reads": {func(x *natskv.Examination) { x.Wrong = "allow_direct lets servers answer that are behind" }, true,
			"bucket", Failed, "nats stream info KV_botwire", []string{"allow_direct"}},
		"little history": {func(x *natskv.Examination) { x.Dubious = []string{"a", "b"} }, true, "bucket", Warning, "nats stream info KV_botwire", []string{"a; b"}},
		"one disk":       {func(x *natskv.Examination) { x.Replicas = 1 }, true, "bucket", Warning, "nats stream edit KV_botwire --replicas=3", []string{"on 1 server"}},
		"a server away":  {func(x *natskv.Examination) { x.Behind = []string{"n2"} }, true, "bucket", Warning, "nats server report jetstream", []string{"1 server", "n2"}},
		"a lost bucket": {func(x *natskv.Examination) { x.Missing, x.Lost = true, " is gone" }, true,
			"bucket", Failed, "botwired restore --all", []string{"the bucket botwire is gone", "has lost writes"}},
		"no mark": {func(x *natskv.Examination) { x.MarkErr = errors.New("the file NATS does not say") }, true, "bucket", Failed, "botwired serve", []string{"the file NATS"}},
		"no majority": {func(x *natskv.Examination) { x.Behind, x.NoMajority = []string{"n2", "n3"}, true }, true,
			"bucket", Failed, "nats server report jetstream", []string{"start another server", "n2, n3"}},
		"clock ahead":   {func(x *natskv.Examination) { x.ServerTime = x.Asked.Add(-time.Minute) }, true, "clock", Warning, setClock(), []string{"1m0s ahead"}},
		"clock behind":  {func(x *natskv.Examination) { x.ServerTime = x.Answered.Add(time.Minute) }, true, "clock", Warning, setClock(), []string{"1m0s behind"}},
		"not looked up": {func(x *natskv.Examination) { x.Lookup = errors.New("timeout") }, true, "bucket", Failed, "nats account info", []string{"timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := examinedBucket()
			row.change(x)
			wantFinding(t, judged(x, &config.NATS{Bucket: "botwire", Create: row.create}), row.check, row.result, row.remedy, row.says...)
		})
	}
}

// Without any server, doctor says so in time, and names the first one.
func TestDoctorWithoutServers(t *testing.T) {
	address := closedAddress(t)
	all := newPatient(t, map[string]string{"upstream.url": "nats://" + address}).upstream(t.Context())
	wantFinding(t, all, "upstream", Failed, "nats --server nats://"+address+" rtt", "no server of nats://"+address)
}

// A watch that is broken for long is a finding, with its reason.
func TestDoctorOfABrokenWatch(t *testing.T) {
	for watch, found := range map[string]bool{
		`{"bucket":"b","caught_up":false,"since":"2026-11-22T10:00:00Z","reason":"no consumer is left"}`:    true,
		`{"bucket":"b","caught_up":false,"since":"2026-11-22T10:00:55Z","reason":"no consumer is left"}`:    false,
		`{"bucket":"b","caught_up":true,"since":"2026-11-22T10:00:00Z"}`:                                    false,
		`{"bucket":"b","caught_up":false,"since":"2026-11-22T10:00:00Z","lost":"the bucket was made anew"}`: false,
	} {
		e := withDaemon(t, `"url":"embedded"`, `"url":"nats://`+closedAddress(t)+`","watch":`+watch)
		all := e.upstream(t.Context())
		if found {
			wantFinding(t, all, "watch", Warning, "nats consumer report KV_b", "no consumer is left")
		} else if len(all) != 1 {
			t.Errorf("%s: %+v", watch, all)
		}
	}
}

// The servers of a daemon with another upstream do not get this shell's credentials.
func TestDoctorKeepsItsCredentials(t *testing.T) {
	mine := natskv.Access{User: "me", Password: "s3cret"}
	for stranger, want := range map[bool]natskv.Access{true: {}, false: mine} {
		opts := natskv.Options{Access: mine, Replicas: 3, TLS: &tls.Config{Certificates: make([]tls.Certificate, 1)}}
		asDoctor(&opts, stranger)
		if opts.Access != want || len(opts.TLS.Certificates) == 0 != stranger {
			t.Errorf("of a stranger: %v: %+v", stranger, opts)
		}
	}
}
