package attach

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The command connects to the daemon directly, not through a proxy.
func TestEnvironmentOfACommand(t *testing.T) {
	for name, test := range map[string]struct {
		environ        []string
		address, token string
		want           []string
	}{
		"nothing": {nil, "127.0.0.1:1", "",
			[]string{"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost", "BOTWIRE_URL=http://127.0.0.1:1"}},
		"another URL": {[]string{"BOTWIRE_URL=https://botwire.dev", "A=b=c", "NO_PROXY=*"}, "127.0.0.1:1", "",
			[]string{"A=b=c", "NO_PROXY=*", "BOTWIRE_URL=http://127.0.0.1:1"}},
		"some are there": {[]string{"no_proxy=10.0.0.0/8, localhost", "NO_PROXY="}, "127.0.0.1:1", "",
			[]string{"no_proxy=10.0.0.0/8, localhost,127.0.0.1", "NO_PROXY=127.0.0.1,localhost", "BOTWIRE_URL=http://127.0.0.1:1"}},
		"another host": {[]string{"NO_PROXY=a"}, "[::1]:1", "t@/k",
			[]string{"NO_PROXY=a,127.0.0.1,localhost,::1", "BOTWIRE_URL=http://x:t%40%2Fk@[::1]:1"}},
	} {
		if diff := cmp.Diff(test.want, commandEnviron(test.environ, test.address, test.token)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
