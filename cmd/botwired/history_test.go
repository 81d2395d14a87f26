package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/upstream"
)

var statesOfK = `{"namespace":"ns","key":"k","revisions":[` +
	`{"revision":null,"state":"pending","op":"put","value":"a\nb\u001b","bytes":4,"created_at":null,"updated_at":1700000060,"host":"h1","here":true,"author":"an agent","seq":9},` +
	`{"revision":7,"state":"settled","op":"delete","value":null,"bytes":0,"created_at":null,"updated_at":1700000000.5,"host":"h2","here":false,"seq":3},` +
	`{"revision":5,"state":"settled","op":"put","value":"` + strings.Repeat("é", 61) + `","bytes":61,"created_at":1,"updated_at":1600000000,"host":"","here":false,"seq":null}]}`

func TestHistory(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/revisions?key=k&namespace=ns":       {200, statesOfK},
		"GET /_botwired/revisions?key=cut&namespace=ns":     {200, strings.TrimSuffix(statesOfK, "}") + `,"complete":false,"why":"so and so\u001b"}`},
		"GET /_botwired/revisions?key=none&namespace=ns":    {404, `{"detail":"no version of ns/none is known: so and so"}`},
		"GET /_botwired/revisions?key=_.a.20b&namespace=ns": {404, `{"detail":"no version of ns/_.a.20b is known: so and so"}`},
	})
	wantOutput(t, at(t, d, nil, "history", "ns", "k"), ""+
		"REVISION  STATE    WRITTEN               HOST       AUTHOR    BYTES    VALUE\n"+
		"w9        pending  2023-11-14T22:14:20Z  h1 (this)  an agent  4        a b \n"+
		"7         settled  2023-11-14T22:13:20Z  h2         -         deleted  -\n"+
		"5         settled  2020-09-13T12:26:40Z  -          -         61       "+strings.Repeat("é", 60)+"…\n")
	wantOutput(t, at(t, d, nil, "history", "ns", "k", "--json"), statesOfK+"\n")
	if got := at(t, d, nil, "history", "ns", "cut"); got.code != 0 || got.stderr != "this is not all: so and so \n" || !strings.Contains(got.stdout, "\n7  ") {
		t.Errorf("%+v", got)
	}
	wantFailure(t, at(t, d, nil, "diff", "ns", "cut", "4"), cli.ExitError, `revision "4" of ns/k is not here: so and so`)
	wantFailure(t, at(t, d, nil, "history", "ns", "none"), cli.ExitError, "no version of ns/none is known: so and so")
	wantFailure(t, at(t, d, nil, "history", "ns", "a b"), cli.ExitError, "no version of ns/a b is known: so and so")
	wantFailure(t, botwired(t, "history", "ns"), cli.ExitUsage, "history NAMESPACE KEY")
}

// contract 17: what has lost a conflict is listed, of all namespaces or one. An undo or a diff takes a state that was never in
// force here only by its name.
func TestHistoryOfWhatIsLost(t *testing.T) {
	lost := func(namespace, revision string, seq int, here bool) string {
		return fmt.Sprintf(`{"namespace":%q,"key":"k","revision":%s,"op":"put","updated_at":1700000000,"lost_at":1700000060,"host":"","here":%v,"author":"an agent","seq":%d}`,
			namespace, revision, here, seq)
	}
	first, second := lost("ns", "9", 9, true), lost("other", "null", 3, false)
	states := `{"namespace":"ns","key":"k","revisions":[` +
		`{"revision":12,"state":"settled","op":"put","value":"theirs","bytes":6,"updated_at":1700000060,"host":"","here":false,"seq":12},` +
		`{"revision":9,"state":"lost","op":"put","value":"earlier","bytes":7,"updated_at":1700000000,"lost_at":1700000060,"host":"","here":false,"seq":9,"apart":true},` +
		`{"revision":3,"state":"settled","op":"put","value":"before","bytes":6,"updated_at":1600000000,"host":"","here":true,"seq":3}]}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/revisions/lost?limit=1000":              {200, `{"lost":[` + first + `],"next":"17"}`},
		"GET /_botwired/revisions/lost?after=17&limit=1000":     {200, `{"lost":[` + second + `],"next":null}`},
		"GET /_botwired/revisions/lost?limit=1000&namespace=ns": {200, `{"lost":[` + first + `],"next":null}`},
		"GET /_botwired/revisions?key=k&namespace=ns":           {200, states},
		"GET /_botwired/revisions?key=k&namespace=ns&to=9":      {200, states},
	})
	const header = "NAMESPACE  KEY  REVISION  OP   WRITTEN               HOST  AUTHOR    LOST\n"
	const ofNS = "ns         k    9         put  2023-11-14T22:13:20Z  this  an agent  2023-11-14T22:14:20Z\n"
	wantOutput(t, at(t, d, nil, "history", "--lost"), header+ofNS+
		"other      k    w3        put  2023-11-14T22:13:20Z  -     an agent  2023-11-14T22:14:20Z\n")
	wantOutput(t, at(t, d, nil, "history", "--lost", "ns"), header+ofNS)
	wantOutput(t, at(t, d, nil, "history", "--lost", "ns", "--json"), `{"lost":[`+first+`],"next":null}`+"\n")
	wantFailure(t, botwired(t, "history", "--lost", "ns", "k"), cli.ExitUsage, "history")
	if got := at(t, d, nil, "diff", "ns", "k"); !strings.Contains(got.stdout, "-before") {
		t.Errorf("%+v", got)
	}
	got := at(t, d, func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader("n\n") }, "undo", "ns", "k")
	if !strings.Contains(got.stderr, "Make it revision 3 again") {
		t.Errorf("%+v", got)
	}
	got = at(t, d, func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader("n\n") }, "undo", "ns", "k", "--to", "9")
	if !strings.Contains(got.stderr, "Make it revision 9 again") {
		t.Errorf("%+v", got)
	}
}

// Where the state before one is missing, the table says so, and neither a diff nor the question of an undo takes an older
// one for it.
func TestHistoryWithAGap(t *testing.T) {
	const states = `{"namespace":"ns","key":"k","revisions":[` +
		`{"revision":9,"state":"settled","op":"put","value":"a","bytes":1,"created_at":null,"updated_at":1700000060,"host":"","here":true,"seq":9,"gap":"forgotten"},` +
		`{"revision":3,"state":"settled","op":"put","value":"b","bytes":1,"created_at":null,"updated_at":1600000000,"host":"","here":true,"seq":3}]}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/revisions?key=k&namespace=ns": {200, states},
		"POST /_botwired/undo?key=k&namespace=ns":     {409, `{"detail":"nothing is undone: name an older one"}`},
	})
	wantOutput(t, at(t, d, nil, "history", "ns", "k"), ""+
		"REVISION  STATE      WRITTEN               HOST  AUTHOR  BYTES  VALUE\n"+
		"9         settled    2023-11-14T22:14:20Z  this  -       1      a\n"+
		"-         forgotten  -                     -     -       -      (the one before was, or may have been, removed for room (history.disk))\n"+
		"3         settled    2020-09-13T12:26:40Z  this  -       1      b\n")
	wantFailure(t, at(t, d, nil, "diff", "ns", "k"), cli.ExitError, "the state of ns/k before this one was, or may have been, removed for room")
	if got := at(t, d, nil, "diff", "ns", "k", "3"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	got := at(t, d, func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader("y\n") }, "undo", "ns", "k")
	if !strings.Contains(got.stderr, "name an older one") || strings.Contains(got.stderr, "[y/N]") {
		t.Errorf("%+v", got)
	}
}

func TestDiff(t *testing.T) {
	revision := func(number int, value string) string {
		text, err := json.Marshal(value)
		no(t, err)
		return fmt.Sprintf(`{"revision":%d,"state":"settled","op":"put","value":%s,"bytes":3,"updated_at":1600000000}`, number, text)
	}
	const deleted = `{"revision":1,"state":"settled","op":"delete","value":null,"updated_at":1600000000}`
	of := func(key string, states ...string) answer {
		return answer{200, fmt.Sprintf(`{"namespace":"ns","key":%q,"revisions":[%s]}`, key, strings.Join(states, ","))}
	}
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/revisions?key=k&namespace=ns":   of("k", revision(3, "a\nc"), revision(2, "a\nb\x1b[2J"), deleted),
		"GET /_botwired/revisions?key=j&namespace=ns":   of("j", revision(3, `{"a":1,"b":[2]}`), revision(2, `{"a":1,"b":[3]}`)),
		"GET /_botwired/revisions?key=one&namespace=ns": of("one", revision(3, "a")),
		"GET /_botwired/revisions?key=no&namespace=ns":  {404, `{"detail":"no version of ns/no is known: so and so"}`},
	})
	const at1 = "written 2020-09-13T12:26:40Z\n"
	wantOutput(t, at(t, d, nil, "diff", "ns", "k"), "--- revision 2: 3 characters, "+at1+"+++ revision 3: 3 characters, "+at1+
		"@@ -1,2 +1,2 @@\n a\n-b [2J\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n")
	wantOutput(t, at(t, d, nil, "diff", "ns", "k", "1", "3"), "--- revision 1: a delete, "+at1+"+++ revision 3: 3 characters, "+at1+
		"@@ -0,0 +1,2 @@\n+a\n+c\n\\ No newline at end of file\n")
	wantOutput(t, at(t, d, nil, "diff", "ns", "k", "3"), "the two states have the same value\n")
	wantOutput(t, at(t, d, nil, "diff", "ns", "j", "2"), "--- revision 2: 3 characters, "+at1+"+++ revision 3: 3 characters, "+at1+
		"@@ -1,6 +1,6 @@\n {\n   \"a\": 1,\n   \"b\": [\n-    3\n+    2\n   ]\n }\n")
	wantFailure(t, at(t, d, nil, "diff", "ns", "k", "9"), cli.ExitError, `revision "9" of ns/k is not kept, or never was`)
	wantFailure(t, at(t, d, nil, "diff", "ns", "one"), cli.ExitError, "ns/one has no earlier state that is kept")
	wantFailure(t, at(t, d, nil, "diff", "ns", "no"), cli.ExitError, "no version of ns/no is known: so and so")
	wantFailure(t, botwired(t, "diff", "ns"), cli.ExitUsage, "diff NAMESPACE KEY")
}

func TestUndoOfAScript(t *testing.T) {
	const back = `{"namespace":"ns","key":"k","undone":{"revision":7},"now":{"revision":5,"op":"put","value":"v","bytes":1,"updated_at":1600000000}}`
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/undo?key=k&namespace=ns":       {200, back},
		"POST /_botwired/undo?key=k&namespace=ns&to=7":  {200, `{"now":{"revision":7,"op":"delete","value":null,"updated_at":1600000000}}`},
		"POST /_botwired/undo?key=k&namespace=ns&to=8":  {404, `{"detail":"upstream does not keep revision 8 of ns/k"}`},
		"POST /_botwired/undo?key=k2&namespace=ns":      {409, `{"detail":"nothing to undo: so and so"}`},
		"POST /_botwired/undo?key=_.a.20b&namespace=ns": {409, `{"detail":"nothing to undo: ns/_.a.20b has one version"}`},
		"POST /_botwired/undo?key=k&namespace=ns&to=99": {412, `{"detail":"Look again"}`},
	})
	wantOutput(t, at(t, d, nil, "undo", "ns", "k", "--yes"), "undone: ns/k is as in revision 5 again: 1 character, written 2020-09-13T12:26:40Z\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "k", "--yes", "--json"), back+"\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "k", "--yes", "--to", "7"), "undone: ns/k is as in revision 7 again: a delete, written 2020-09-13T12:26:40Z\n")
	wantFailure(t, at(t, d, nil, "undo", "ns", "k", "--yes", "--to", "8"), cli.ExitError, "does not keep revision 8 of ns/k")
	wantFailure(t, at(t, d, nil, "undo", "ns", "k2", "--yes"), cli.ExitError, "nothing to undo: so and so")
	wantFailure(t, at(t, d, nil, "undo", "ns", "a b", "--yes"), cli.ExitError, "nothing to undo: ns/a b has one version")
	wantFailure(t, at(t, d, nil, "undo", "ns", "k", "--yes", "--to", "99"), cli.ExitError, "ns/k was written meanwhile, and nothing is undone")
	wantFailure(t, at(t, d, nil, "undo", "ns", "k"), cli.ExitUsage, "--yes")
	wantFailure(t, at(t, d, nil, "undo", "ns", "k", "--to", "0", "--yes"), cli.ExitUsage, "expected a revision")
}

// On a terminal, the question shows both states, and the undo applies only if the first is still the
// newest.
func TestUndoAtATerminal(t *testing.T) {
	var undone []string
	server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			w.Header().Set("ETag", `"9-tag"`)
			_, _ = w.Write([]byte(statesOfK))
			return
		}
		undone = append(undone, r.URL.Query().Get("to")+" "+r.Header.Get("If-Match"))
		_, _ = w.Write([]byte(`{"now":{"revision":5,"value":"v","bytes":1,"updated_at":1600000000}}`))
	})))
	t.Cleanup(server.Close)
	d := &daemon{address: server.Listener.Addr().String()}
	reply := func(text string) func(*cli.Program) {
		return func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader(text) }
	}
	got := at(t, d, reply("y\n"), "undo", "ns", "k")
	if !strings.HasPrefix(got.stderr, "ns/k is now 4 characters, written ") || !strings.Contains(got.stderr, "Make it revision 7 again: a delete, written ") ||
		!strings.Contains(got.stdout, "undone: ns/k is as in revision 5 again") {
		t.Errorf("%+v", got)
	}
	if got := at(t, d, reply("y\n"), "undo", "ns", "k", "--to", "5"); !strings.Contains(got.stderr, "Make it revision 5 again: 61 characters, written ") {
		t.Errorf("%+v", got)
	}
	if got := at(t, d, reply("\n"), "undo", "ns", "k"); got.code != cli.ExitError || !strings.Contains(got.stderr, "nothing is changed") {
		t.Errorf("without a yes: %+v", got)
	}
	if got := at(t, d, reply(""), "undo", "ns", "k", "--to", "6"); strings.Contains(got.stderr, "[y/N]") { // the daemon refuses
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{` "9-tag"`, `5 "9-tag"`, `6 "9-tag"`}, undone); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
}

// The question is about the state that the daemon takes: none that upstream has refused. If that is from before the
// namespace was sealed, the daemon refuses, and there is no question.
func TestUndoAsksAboutWhatItWrites(t *testing.T) {
	for earlier, want := range map[string]string{"settled": "Make it revision 5 again", "unsealed": ""} {
		server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet {
				_, _ = w.Write([]byte(`{"revisions":[{"revision":9,"state":"settled","value":"new"},{"revision":8,"state":"dead","value":"no"},` +
					`{"revision":5,"state":"` + earlier + `","value":"old"}]}`))
				return
			}
			http.Error(w, `{"detail":"refused"}`, http.StatusConflict)
		})))
		t.Cleanup(server.Close)
		got := at(t, &daemon{address: server.Listener.Addr().String()},
			func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader("y\n") }, "undo", "ns", "k")
		if !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "[y/N]") != (want != "") {
			t.Errorf("%s: %+v", earlier, got)
		}
	}
}

// The memory gets an engine's versions and errors as its own.
func TestVersionsOfAnEngine(t *testing.T) {
	var fail error
	ask := versionsOf(upstream.Backend{Host: "h1", Revisions: func(context.Context, journal.ID) ([]upstream.Version, error) {
		return []upstream.Version{
			{Revision: 7, Deleted: true, WrittenAt: 3, Writer: upstream.Writer{Host: "h2", Seq: 9}},
			{Revision: 5, Value: "v", ListBytes: 1, CreatedAt: 1, WrittenAt: 2, Writer: upstream.Writer{Host: "h1", Seq: 8}, Author: "a"},
		}, fail
	}})
	id := journal.ID{Namespace: "ns", Key: "k"}
	got, err := ask(t.Context(), id)
	want := []memory.Version{
		{Past: journal.Past{ID: id, Op: journal.Delete, State: journal.PastSettled, WrittenAt: 3, Host: "h2"}, Revision: 7},
		{
			Past:     journal.Past{ID: id, Seq: 8, Op: journal.Put, Value: "v", State: journal.PastSettled, WrittenAt: 2, Host: "h1", Author: "a"},
			Revision: 5, CreatedAt: 1, Here: true,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, wait := range []time.Duration{0, time.Minute} {
		fail = &upstream.Error{Verdict: upstream.Transient, Reason: "no leader", RetryAfter: wait}
		_, err = ask(t.Context(), journal.ID{})
		var later *upstream.Unavailable
		if !errors.As(err, &later) || later.Wait != max(wait, time.Second) || later.Reason != "no leader" {
			t.Errorf("%#v", err)
		}
	}
	fail = context.Canceled
	if _, err := ask(t.Context(), journal.ID{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
