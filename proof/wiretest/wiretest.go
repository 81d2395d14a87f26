// Package wiretest replays recordings of BotWire's own server against another one. It is test support:
// only tests import it.
package wiretest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recordings holds one scenario a line. In targets and answers, NS is the scenario's namespace,
// BASE for the server's URL and <now> for a time close to now.
//
//go:embed testdata/botwire-memory.jsonl.gz
var recordings []byte

type scenario struct {
	Name  string `json:"scenario"`
	Steps []step `json:"steps"`
}

type step struct {
	Request  request `json:"request"`
	Response answer  `json:"response"`
}

type request struct {
	Method  string            `json:"method"`
	Target  string            `json:"target"`
	Headers map[string]string `json:"headers"`
	Body    *[]byte           `json:"body_b64"` // nil sends none, not even an empty one
}

// answer is what is compared. JSON and Order, the names of the outermost object as they came, are set
// when the body is JSON, and Text otherwise.
type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	JSON    any               `json:"json"`
	Order   []string          `json:"order"`
	Text    string            `json:"text"`
}

// Replay sends every recorded scenario to the server at base, such as http://127.0.0.1:2689, one
// subtest each and in a namespace of its own, and reports each step that is answered otherwise than
// BotWire did. Times, the wording of JSON errors and BotWire's own crashes are compared loosely; of
// the headers, content-type, allow and location count. A token goes with every request, unless it is empty.
// The steps in except must be answered as they say.
func Replay(t *testing.T, base, token string, except ...Exception) {
	t.Helper()
	scenarios := load(t)
	for _, e := range except {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.Name == e.Scenario })
		want := &scenarios[i].Steps[e.Step].Response
		want.Status, want.JSON = e.Status, map[string]any{"detail": e.Detail}
	}
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) { s.replay(t, base, token) })
	}
}

// Exception is a step that a server refuses for a reason of its own.
type Exception struct {
	Scenario string
	Step     int
	Status   int
	Detail   string
}

func (s scenario) replay(t *testing.T, base, token string) {
	ns := fmt.Sprintf("w-%08x-%s", rand.Uint32(), strings.ReplaceAll(s.Name, "_", "-"))
	ns = ns[:min(len(ns), 60)]
	for i, step := range s.Steps {
		got, err := step.Request.send(base, ns, token)
		if err != nil {
			t.Errorf("step %d: %s %.80s: %v", i, step.Request.Method, step.Request.Target, err)
			continue
		}
		if diff := differences(step.Response, got); diff != "" {
			t.Errorf("step %d: %s %.80s (-BotWire +got):\n%s", i, step.Request.Method, step.Request.Target, diff)
		}
	}
}

// differences is empty when got passes for what BotWire answered.
func differences(want, got answer) string {
	if want.Status == 500 {
		if got.Status >= 400 && got.Status < 500 {
			return ""
		}
		return fmt.Sprintf("status %d where BotWire crashed, want a 4xx", got.Status)
	}
	return cmp.Diff(loosened(want), loosened(got))
}

// loosened drops the particulars of a JSON syntax error.
func loosened(a answer) answer {
	body, _ := a.JSON.(map[string]any)
	details, _ := body["detail"].([]any)
	if len(details) > 0 {
		if first, _ := details[0].(map[string]any); first["type"] == "json_invalid" {
			a.JSON = "json_invalid"
		}
	}
	return a
}

// load decodes the recordings.
func load(t *testing.T) []scenario {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(recordings))
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bufio.NewReader(unzipped))
	var list []scenario
	for {
		var s scenario
		if err := lines.Decode(&s); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
}

// closeToNow bounds how far from now a time may be to be taken for the time of the request.
const closeToNow = 2 * time.Minute
