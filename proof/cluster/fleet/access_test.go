package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/proof/cluster"
)

// A daemon gets in again with what its context has by now: another password, a token, a user in place of a
// token. It tells once of a context that it cannot read, and signs in as before.
func TestAContextIsReadAtEachConnection(t *testing.T) {
	local := cluster.RunServer(t, func(o *server.Options) { o.Username, o.Password = "me", "first" })
	context := filepath.Join(t.TempDir(), "context.json")
	save := func(text string) {
		t.Helper()
		err := os.WriteFile(context+".new", []byte(text), 0o600)
		if err == nil {
			err = os.Rename(context+".new", context)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	save(`{"user":"me","password":"first"}`)
	d := daemon(t, local.URL(), append(OverBucket("signed"), "--upstream-nats-replicas", "1", "--upstream-nats-context", context)...)
	works := func(value string) {
		t.Helper()
		if _, err := d.Put(t.Context(), kept(1), value); err != nil {
			t.Fatal(err)
		}
		if err := d.Flush(t.Context(), patience); err != nil {
			t.Fatal(err)
		}
	}
	works("first")
	for _, step := range []struct {
		access string
		change func(*server.Options)
	}{
		{`{"user":"me","password":"second"}`, func(o *server.Options) { o.Password = "second" }},
		{`{"token":"t1"}`, func(o *server.Options) { o.Username, o.Password, o.Authorization = "", "", "t1" }},
		{`{"token":"t2"}`, func(o *server.Options) { o.Authorization = "t2" }},
		{`{"user":"you","password":"p","token":"t2"}`, func(o *server.Options) { o.Username, o.Password, o.Authorization = "you", "p", "" }},
	} {
		if err := local.Reload(step.change); err != nil {
			t.Fatal(err)
		}
		awaitStatus(t, d, "upstream refuses the daemon", func(s *api.Status) bool {
			return strings.Contains(s.Upstream.Watch.Reason, "do not let botwired in")
		})
		save(step.access)
		works(step.access)
	}
	save("{")
	local.Stop()
	awaitStatus(t, d, "upstream is gone", func(s *api.Status) bool { return strings.Contains(s.Upstream.Watch.Reason, "no connection") })
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	works("last")
	log := strings.Join(d.Lines(), "\n")
	if n := strings.Count(log, "cannot be read: botwired signs in as before"); n != 1 || strings.Contains(log, "second") {
		t.Errorf("told %d times:\n%s", n, log)
	}
}
