package fleet

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/proof/cluster"
	"github.com/botwired/botwired/proof/cluster/check"
)

// author is a daemon that is asked by a program with a name.
type author struct {
	*Daemon
	name string
}

func (a author) write(t *testing.T, r api.Request) {
	t.Helper()
	r.Header = http.Header{"Botwired-Author": {a.name}}
	if _, err := a.client.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func (a author) put(t *testing.T, e check.Entry, value string) {
	t.Helper()
	a.write(t, api.Request{Method: http.MethodPut, Path: api.Memory(e.Namespace, e.Key), Body: []byte(`{"value":"` + value + `"}`)})
}

func (a author) undo(t *testing.T, e check.Entry, to string) {
	t.Helper()
	q := url.Values{"namespace": {e.Namespace}, "key": {e.Key}}
	if to != "" {
		q.Set("to", to)
	}
	a.write(t, api.Request{Method: http.MethodPost, Path: api.Surface("undo"), Query: q})
}

// states are the states of an entry, each with its state, its author and its value.
func (a author) states(t *testing.T, e check.Entry) (doc api.Revisions, list []string) {
	t.Helper()
	r := api.Request{Path: api.Surface("revisions"), Query: url.Values{"namespace": {e.Namespace}, "key": {e.Key}}}
	if _, err := a.client.Read(t.Context(), r, &doc); err != nil {
		t.Fatal(err)
	}
	for _, d := range doc.Revisions {
		list = append(list, strings.TrimSpace(d.State+" "+d.Author+" "+d.Text()))
	}
	return doc, list
}

func (a author) wantStates(t *testing.T, what string, complete bool, e check.Entry, want ...string) []api.Revision {
	t.Helper()
	doc, got := a.states(t, e)
	if diff := cmp.Diff(want, got); diff != "" || doc.Complete != complete || (doc.Why == "") != complete {
		t.Errorf("%s: complete is %v, %q (-want +got):\n%s", what, doc.Complete, doc.Why, diff)
	}
	return doc.Revisions
}

// The history of an entry has the writes of all hosts, each once, with their authors. It has those that are known
// here while the bucket is away, too, and they can be undone then.
func TestOneHistoryOfAllHosts(t *testing.T) {
	s := cluster.RunServer(t)
	flags := []string{
		"--upstream-nats-bucket", "past", "--upstream-nats-replicas", "1", "--upstream-timeout", "3s", "--flush-linger", "1ms",
	}
	a, b := author{daemon(t, s.URL(), flags...), "ann"}, author{daemon(t, s.URL(), flags...), "bob"}
	e := check.Entry{Namespace: "ns", Key: "k"}
	flush := func(d author) {
		t.Helper()
		if err := d.Flush(t.Context(), patience); err != nil {
			t.Fatal(err)
		}
	}
	a.put(t, e, "one")
	flush(a)
	awaited(t, b.Daemon, e, "one")
	b.put(t, e, "two")
	flush(b)
	awaited(t, a.Daemon, e, "two")
	a.wantStates(t, "ann", true, e, "settled bob two", "settled ann one")
	b.wantStates(t, "bob", true, e, "settled bob two", "settled ann one")

	a.undo(t, e, "")
	flush(a)
	awaited(t, b.Daemon, e, "one")
	b.undo(t, e, "")
	flush(b)
	awaited(t, a.Daemon, e, "two")
	all := []string{"settled bob two", "settled ann one", "settled bob two", "settled ann one"}
	a.wantStates(t, "after two undos", true, e, all...)
	theirs := b.wantStates(t, "after two undos", true, e, all...)
	if theirs[1].Here || theirs[1].Revision == nil || theirs[1].Seq == nil {
		t.Errorf("a state of another host is %+v", theirs[1])
	}

	s.Stop()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if doc, _ := b.states(t, e); !doc.Complete {
			break
		} else if time.Now().After(until) {
			t.Fatal("the history is complete without a server")
		}
	}
	b.put(t, e, "spoilt")
	offline := b.wantStates(t, "in the outage", false, e, "pending bob spoilt", "settled bob two", "shown ann one", "settled bob two", "shown ann one")
	b.undo(t, e, "")
	b.wantStates(t, "undone", false, e, "pending bob two", "superseded bob spoilt", "settled bob two", "shown ann one", "settled bob two", "shown ann one")
	if offline[2].Seq == nil || offline[2].Revision != nil {
		t.Fatalf("a state of another host is %+v", offline[2])
	}
	b.undo(t, e, fmt.Sprintf("w%d", *offline[2].Seq))
	awaited(t, b.Daemon, e, "one")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	flush(b)
	awaited(t, a.Daemon, e, "one")
	a.wantStates(t, "after the outage", true, e, append([]string{"settled bob one"}, all...)...)
}
