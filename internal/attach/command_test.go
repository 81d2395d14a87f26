package attach

import (
	"strings"
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
			[]string{"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost", "BOTWIRE_URL=http://127.0.0.1:1/_botwired/as/an%20agent"}},
		"another URL": {[]string{"BOTWIRE_URL=https://botwire.dev", "A=b=c", "NO_PROXY=*"}, "127.0.0.1:1", "",
			[]string{"A=b=c", "NO_PROXY=*", "BOTWIRE_URL=http://127.0.0.1:1/_botwired/as/an%20agent"}},
		"some are there": {[]string{"no_proxy=10.0.0.0/8, localhost", "NO_PROXY="}, "127.0.0.1:1", "",
			[]string{"no_proxy=10.0.0.0/8, localhost,127.0.0.1", "NO_PROXY=127.0.0.1,localhost", "BOTWIRE_URL=http://127.0.0.1:1/_botwired/as/an%20agent"}},
		"another host": {[]string{"NO_PROXY=a"}, "[::1]:1", "t@/k",
			[]string{"NO_PROXY=a,127.0.0.1,localhost,::1", "BOTWIRE_URL=http://x:t%40%2Fk@[::1]:1/_botwired/as/an%20agent"}},
	} {
		if diff := cmp.Diff(test.want, commandEnviron(test.environ, test.address, test.token, "an agent")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A command has a name in the history, although its SDK sends none.
func TestNameOfACommand(t *testing.T) {
	for command, want := range map[string]string{
		"python agent.py": "agent", "python3.12 -u src/planner.py --config a.toml": "planner", "/usr/bin/python -m crew.main x.py": "crew.main",
		"uv run --with httpx agent.py": "agent", "node agent.mjs": "agent", "./my-agent --config a.py": "my-agent", "/opt/agent.exe": "agent",
		"python": "python", "python -c pass": "python", "bash": "bash", "bash start.sh": "start", "pytest tests/x.py": "pytest",
	} {
		if got := authorOf([]string{"A=b", "BOTWIRED_AUTHOR="}, strings.Fields(command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got := authorOf([]string{"BOTWIRED_AUTHOR=night shift"}, []string{"python", "agent.py"}); got != "night shift" {
		t.Errorf("BOTWIRED_AUTHOR: %q", got)
	}
}
