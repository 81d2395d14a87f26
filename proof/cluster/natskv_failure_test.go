package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

func TestWithoutServersARequestFailsAtOnce(t *testing.T) {
	local := RunServer(t)
	local.Stop()
	e := engineOf(t, "h1", []string{local.URL()}, func(o *natskv.Options) { o.Timeout = time.Hour })
	_, err := e.Swap(t.Context(), putting("k", "1", 10, 1, upstream.Version{}))
	if f := failed(t, err, upstream.Unsent, local.URL()); !f.Unreachable {
		t.Error("the service counts as reachable")
	}
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		v, err := e.Get(t.Context(), entry("k"))
		if v.Present() {
			t.Fatal("the write was kept, and sent later")
		}
		return err == nil
	})
	swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
}

func TestARestartOfTheServer(t *testing.T) {
	local := RunServer(t)
	e := engineOf(t, "h1", []string{local.URL()})
	first := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	local.Stop()
	until(t, func() bool {
		_, err := e.Get(t.Context(), entry("k"))
		var f *upstream.Error
		return errors.As(err, &f) && f.Verdict == upstream.Unsent && f.Unreachable
	})
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	var v upstream.Version
	until(t, func() (ok bool) {
		var err error
		v, err = e.Get(t.Context(), entry("k"))
		return err == nil
	})
	if v != first {
		t.Errorf("after a restart the entry is %+v, before it %+v", v, first)
	}
	swapped(t, e, putting("k", "2", 20, 2, v))
}

func TestALostAnswerIsFoundAgain(t *testing.T) {
	network := newDeaf(t, RunServer(t).Address())
	e := engineOf(t, "h1", []string{network.url()}, func(o *natskv.Options) { o.Timeout = time.Hour })
	first := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	other := engineOf(t, "h2", []string{"nats://" + network.to})
	for i := range 10 {
		p := putting("k", "lost "+strconv.Itoa(i), float64(20+i), uint64(2+i), first)
		network.losing.Store(true)
		result := make(chan error, 1)
		go func() {
			_, err := e.Swap(t.Context(), p)
			result <- err
		}()
		until(t, func() bool {
			v, err := other.Get(t.Context(), p.ID)
			return err == nil && v.Writer.Seq == p.Writer.Seq
		})
		network.breaks()
		failed(t, <-result, upstream.Unanswered, "the connection broke")
		network.losing.Store(false)

		var conflict *upstream.Conflict
		until(t, func() bool {
			_, err := e.Swap(t.Context(), p)
			return errors.As(err, &conflict)
		})
		if conflict.Now == nil || conflict.Now.Writer != p.Writer || conflict.Now.Value != p.Value || conflict.Now.WrittenAt != p.WrittenAt {
			t.Fatalf("sent again, the write meets %+v", conflict.Now)
		}
		first = *conflict.Now
	}
	if versions, err := other.Revisions(t.Context(), entry("k")); err != nil || len(versions) != 8 || versions[0].Revision != 11 {
		t.Errorf("eleven writes have left %d versions, the last one %d: %v", len(versions), versions[0].Revision, err)
	}
}

func TestASilentNetworkIsNoticed(t *testing.T) {
	t.Parallel()
	local := RunServer(t)
	link, err := NewLink(t.Context(), local.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	e := engineOf(t, "h1", []string{"nats://" + link.Address()}, func(o *natskv.Options) { o.Timeout = 200 * time.Millisecond })
	until(t, func() bool { // a busy machine may take longer than that to look at the bucket
		_, err := e.Get(t.Context(), entry("k"))
		return err == nil
	})
	first := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	link.Cut()
	_, err = e.Get(t.Context(), entry("k"))
	failed(t, err, upstream.Unanswered, "no answer within 200ms")
	large := putting("k", strings.Repeat("\U0001F600", 100_000), 20, 2, first)
	_, err = e.Swap(t.Context(), large)
	failed(t, err, upstream.Unanswered, "no answer within 200ms")
	until(t, func() bool {
		_, err := e.Get(t.Context(), entry("k"))
		var f *upstream.Error
		return errors.As(err, &f) && f.Verdict == upstream.Unsent && f.Unreachable
	})
	link.Join()
	until(t, func() bool {
		v, err := e.Get(t.Context(), entry("k"))
		return err == nil && v.Present()
	})
}

func TestARequestEndsWithItsCaller(t *testing.T) {
	local := RunServer(t)
	link, err := NewLink(t.Context(), local.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	e := engineOf(t, "h1", []string{"nats://" + link.Address()}, func(o *natskv.Options) { o.Timeout = time.Hour })
	swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	link.Cut()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	_, err = e.Get(ctx, entry("k"))
	failed(t, err, upstream.Unanswered, "")
}

func TestAWrongPasswordIsNamedAndCanBeMended(t *testing.T) {
	local := RunServer(t, func(o *server.Options) { o.Username, o.Password = "me", "right" })
	e := engineOf(t, "h1", []string{local.URL()}, func(o *natskv.Options) { o.Access = natskv.Access{User: "me", Password: "other"} })
	refused := func() bool {
		_, err := e.Get(t.Context(), entry("k"))
		var f *upstream.Error
		if !errors.As(err, &f) || f.Verdict != upstream.Unsent || strings.Contains(f.Reason, "other") {
			t.Fatalf("got %v", err)
		}
		return strings.Contains(f.Reason, "do not let botwired in")
	}
	until(t, refused)
	local.Stop()
	until(t, func() bool { return !refused() })
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, refused)
	local.Stop()
	local.Change(func(o *server.Options) { o.Password = "other" })
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		_, err := e.Get(t.Context(), entry("k"))
		return err == nil
	})
}

// An engine signs in with a token, and as a user whose answers have subjects of their own.
func TestAnEngineSignsIn(t *testing.T) {
	own := &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_me.>"}}}
	for name, row := range map[string]struct {
		change func(*server.Options)
		access natskv.Access
	}{
		"a token":      {func(o *server.Options) { o.Authorization = "t" }, natskv.Access{Token: "t"}},
		"an own inbox": {func(o *server.Options) { o.Users = []*server.User{{Username: "me", Password: "p", Permissions: own}} }, natskv.Access{User: "me", Password: "p", InboxPrefix: "_INBOX_me"}},
	} {
		t.Run(name, func(t *testing.T) {
			local := RunServer(t, row.change)
			e := engineOf(t, "h1", []string{local.URL()}, func(o *natskv.Options) { o.Access = row.access })
			v := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
			if got, err := e.Get(t.Context(), entry("k")); err != nil || got != v {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestWhatTheServersDoNotPermitPauses(t *testing.T) {
	local := RunServer(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "p"},
			{Username: "reader", Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>"}},
			}},
			{Username: "writer", Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$KV.>", "$JS.API.STREAM.INFO.>"}},
			}},
			{Username: "mute", Password: "p", Permissions: &server.Permissions{
				Subscribe: &server.SubjectPermission{Allow: []string{"none"}},
			}},
		}
	})
	as := func(user string) *natskv.Engine {
		return engineOf(t, user, []string{local.URL()}, func(o *natskv.Options) {
			o.Access, o.Timeout = natskv.Access{User: user, Password: "p"}, time.Hour
		})
	}
	first := swapped(t, as("admin"), putting("k", "1", 10, 1, upstream.Version{}))
	reader, writer, mute := as("reader"), as("writer"), as("mute")
	if v, err := reader.Get(t.Context(), entry("k")); err != nil || v != first {
		t.Errorf("the reader reads %+v, %v", v, err)
	}
	_, err := reader.Swap(t.Context(), putting("k", "2", 20, 2, first))
	failed(t, err, upstream.Paused, "$KV.memory.ns.k")
	swapped(t, writer, putting("k", "2", 20, 2, first))
	_, err = writer.Get(t.Context(), entry("k"))
	failed(t, err, upstream.Paused, "MSG.GET")
	_, err = mute.Get(t.Context(), entry("k"))
	failed(t, err, upstream.Paused, "Subscription")
}

// The list of permissions in docs/scale.md is enough, and the lack of each is named.
func TestPermissionsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "publish = [")
	list, _, _ := strings.Cut(after, "]")
	publish := strings.FieldsFunc(strings.ReplaceAll(list, "botwire", "memory"), func(r rune) bool { return strings.ContainsRune("\", \n", r) })
	if len(publish) < 5 {
		t.Fatalf("the page lists %q", publish)
	}
	for _, without := range append(publish, "") {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			allowed := slices.DeleteFunc(slices.Clone(publish), func(subject string) bool { return subject == without })
			s := RunServer(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "me", Password: "p", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: allowed}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
				}}}
			})
			var log lines
			e := engineOf(t, "h1", []string{s.URL()}, func(o *natskv.Options) {
				o.Access, o.Logger = natskv.Access{User: "me", Password: "p"}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			named := func(err error) bool {
				return without != "" && strings.Contains(fmt.Sprint(err, e.State().Reason, strings.ReplaceAll(log.String(), `\"`, `"`)), `"`+strings.TrimSuffix(without, ">"))
			}
			for range 2 {
				found := false
				until(t, func() bool {
					err := usedFully(t.Context(), e)
					found = named(err)
					return found || err == nil && sound(e)
				})
				if found {
					return
				}
				s.Stop()
				until(t, func() bool { return !sound(e) })
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
			}
			if without != "" {
				until(t, func() bool { return named(nil) }) // a deletion may be under way
			} else if strings.Contains(log.String(), "ermission") {
				t.Errorf("more is needed: %s", &log)
			}
		})
	}
}

// usedFully makes each kind of request once.
func usedFully(ctx context.Context, e *natskv.Engine) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a purge waits for the watch
	defer cancel()
	if err := wrote(ctx, e, "k", "v"); err != nil {
		return err
	}
	v, err := e.Get(ctx, entry("k"))
	if err != nil {
		return err
	}
	gone := putting("k", "", v.WrittenAt+1, 0, v)
	gone.Op = journal.Delete
	if _, err := e.Swap(ctx, gone); err != nil {
		return err
	}
	if versions, err := e.Revisions(ctx, entry("k")); err != nil || len(versions) < 2 {
		return fmt.Errorf("the history has %d versions: %w", len(versions), err)
	}
	if err := e.Purge(ctx, entry("k")); err != nil {
		return err
	}
	_, _, err = e.List(ctx, "ns")
	return err
}

// lines keeps a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// certificate returns a server's TLS for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, pool
}

func TestTLSIsVerified(t *testing.T) {
	config, pool := certificate(t)
	secure := RunServer(t, func(o *server.Options) { o.TLS, o.TLSConfig, o.TLSTimeout = true, config, 10 })
	plain := RunServer(t)
	with := func(url string, roots *x509.CertPool) error {
		e := engineOf(t, "h1", []string{url}, func(o *natskv.Options) {
			o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		})
		var err error
		until(t, func() bool { // the first attempt may tell less than the later ones
			_, err = e.Get(t.Context(), entry("k"))
			return err == nil || strings.Contains(err.Error(), "TLS")
		})
		return err
	}
	if err := with(secure.URL(), pool); err != nil {
		t.Error(err)
	}
	failed(t, with(secure.URL(), x509.NewCertPool()), upstream.Unsent, "unknown authority")
	failed(t, with(strings.Replace(secure.URL(), "127.0.0.1", "localhost", 1), pool), upstream.Unsent, "for another name")
	failed(t, with(plain.URL(), pool), upstream.Unsent, "does not offer TLS")
}

func TestSizesThatTheServersDoNotTake(t *testing.T) {
	local := RunServer(t, func(o *server.Options) { o.MaxPayload = 10_000 })
	e := engineOf(t, "h1", []string{local.URL()})
	_, err := e.Swap(t.Context(), putting("k", strings.Repeat("a", 10_000), 10, 1, upstream.Version{}))
	failed(t, err, upstream.Permanent, "max_payload is 10000 bytes")
	swapped(t, e, putting("k", strings.Repeat("a", 9_000), 10, 1, upstream.Version{}))
	js := admin(t, local.URL())
	config := streamConfig(t, js)
	config.MaxMsgSize = 1000
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	_, err = e.Swap(t.Context(), putting("k2", strings.Repeat("a", 5_000), 10, 1, upstream.Version{}))
	failed(t, err, upstream.Permanent, "size")
}

func streamConfig(t *testing.T, js jetstream.JetStream) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}

func TestAFullBucketPauses(t *testing.T) {
	local := RunServer(t)
	e := engineOf(t, "h1", []string{local.URL()})
	first := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	js := admin(t, local.URL())
	config := streamConfig(t, js)
	config.MaxBytes = 5000
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = e.Swap(t.Context(), putting("k"+strconv.Itoa(i), strings.Repeat("a", 500), 10, 1, upstream.Version{}))
	}
	failed(t, err, upstream.Paused, "the bucket memory is full")
	if v, err := e.Get(t.Context(), entry("k")); err != nil || v != first {
		t.Errorf("full, the bucket has lost an entry: %+v, %v", v, err)
	}
}

func TestManyRequestsSurviveRestarts(t *testing.T) {
	local := RunServer(t)
	e := engineOf(t, "h1", []string{local.URL()}, func(o *natskv.Options) { o.Timeout = time.Second })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() { writeUntil(ctx, t, e, "k"+strconv.Itoa(w)) })
	}
	for range 3 {
		time.Sleep(50 * time.Millisecond)
		local.Stop()
		if err := local.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool {
			_, err := e.Get(t.Context(), entry("k0"))
			return err == nil
		})
	}
	cancel()
	work.Wait()
}

// writeUntil writes to an entry that nobody else writes to, and sees that no confirmed write is lost.
func writeUntil(ctx context.Context, t *testing.T, e *natskv.Engine, key string) {
	var last upstream.Version // as far as is known
	confirmed := uint64(0)
	for ctx.Err() == nil {
		seq := confirmed + 1
		v, err := e.Swap(ctx, putting(key, strconv.FormatUint(seq, 10), float64(seq), seq, last))
		var conflict *upstream.Conflict
		if errors.As(err, &conflict) {
			if conflict.Now != nil {
				v, err = *conflict.Now, nil
			} else {
				v, err = e.Get(ctx, entry(key))
			}
		}
		if err != nil {
			continue
		}
		if v.Writer.Seq < confirmed || v.Writer.Seq > seq {
			t.Errorf("after the confirmed write %d, the write %d meets %+v", confirmed, seq, v)
			return
		}
		last, confirmed = v, v.Writer.Seq
	}
}

// A write that fails while the connection is away is never sent once it is there again.
func TestAFailedWriteIsNotSentLater(t *testing.T) {
	local := RunServer(t)
	e := engineOf(t, "h1", []string{local.URL()})
	first := swapped(t, e, putting("k", "1", 10, 1, upstream.Version{}))
	local.Stop()
	until(t, func() bool {
		_, err := e.Swap(t.Context(), putting("k", "2", 20, 2, first))
		var f *upstream.Error
		return errors.As(err, &f) && f.Verdict == upstream.Unsent
	})
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		v, err := e.Get(t.Context(), entry("k"))
		if err == nil && v != first {
			t.Fatalf("the entry is %+v", v)
		}
		return err == nil
	})
}

func TestServersWithoutJetStream(t *testing.T) {
	local := RunServer(t, func(o *server.Options) { o.JetStream = false })
	e := engineOf(t, "h1", []string{local.URL()}, func(o *natskv.Options) { o.Timeout = time.Hour })
	_, err := e.Get(t.Context(), entry("k"))
	if f := failed(t, err, upstream.Unsent, "JetStream is off"); !f.Unreachable {
		t.Error("the service counts as reachable")
	}
}

// The index has a swap's version before the swap returns, and so the version that has beaten it.
func TestASwapIsKnownAtOnce(t *testing.T) {
	url := []string{RunServer(t).URL()}
	e, other := engineOf(t, "h1", url), engineOf(t, "h2", url)
	if _, _, err := e.List(t.Context(), "ns"); err != nil { // it has read the bucket
		t.Fatal(err)
	}
	var over upstream.Version
	for i := range 100 {
		over = swapped(t, e, putting("k", strconv.Itoa(i), float64(i+1), 1, over))
		known, ok := e.Known(entry("k"))
		over.Value = ""
		if !ok || known != over {
			t.Fatalf("known is %+v, %v; it is %+v", known, ok, over)
		}
	}
	now := swapped(t, other, putting("k", "theirs", 1000, 1, over))
	if _, err := e.Swap(t.Context(), putting("k", "mine", 1001, 2, over)); err == nil {
		t.Fatal("the swap over an old version took place")
	}
	now.Value = ""
	if known, ok := e.Known(entry("k")); !ok || known != now {
		t.Errorf("after a conflict known is %+v, %v; it is %+v", known, ok, now)
	}
}
