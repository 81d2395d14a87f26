package fleet

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/wiretest"
)

// patience ends a hang: a busy machine is slow.
const patience = 2 * time.Minute

// A client sees no difference between BotWire and a daemon over three servers, beside it or shared by many
// with a token.
func TestRecordingsOverThreeServers(t *testing.T) {
	const token = "shared-by-many-agents"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	url := threeServers(t)
	for name, o := range map[string]Options{
		"beside": {Flags: OverBucket("recordings")},
		"shared": {Flags: append(OverBucket("recordings"), "--auth-token-file", file), Token: token},
	} {
		t.Run(name, func(t *testing.T) {
			o.Upstream, o.Flags = url, append(o.Flags, "--upstream-timeout", "30s") // three servers share a busy machine
			d := start(t, o)
			if _, err := d.Put(t.Context(), check.Entry{Namespace: "start", Key: name}, "start"); err != nil {
				t.Fatal(err)
			}
			if err := d.Flush(t.Context(), patience); err != nil { // the servers have found each other
				t.Fatal(err)
			}
			wiretest.Replay(t, d.URL(), o.Token)
		})
	}
}
