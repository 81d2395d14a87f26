package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// The status of a daemon with which all is well, around the lines about upstream and pending writes.
const (
	statusHead    = "All is well\n\n"
	statusVersion = "version       v1 at 127.0.0.1:1, up since 2026-11-22T20:00:00Z\n"
	statusTail    = "reads         0\nsaved         0 of 0 writes\ndisk          journal 0B, copies 0B, 1.0GiB free\n" +
		"memory        0B of entries, at most 1.0MiB\ndata_dir      /data\n"
)

// statusWith returns such a status, with some fields replaced.
func statusWith(t *testing.T, fields string) string {
	t.Helper()
	doc := make(map[string]json.RawMessage)
	for _, part := range []string{`{"version":"v1","summary":{"level":"ok","text":"All is well"},"started_at":"2026-11-22T20:00:00Z","data_dir":"/data",
		"listen":"127.0.0.1:1","ready":true,"upstream":{"url":"u","state":"up"},"pending":0,"dead_letters":0,"open_dead_letters":0,
		"disk":{"journal_bytes":0,"copies_bytes":0,"free_bytes":1073741824},"cache":{"bytes":0,"budget":1048576},"namespaces":[]}`, "{" + fields + "}"} {
		if err := json.Unmarshal([]byte(part), &doc); err != nil {
			t.Fatal(err)
		}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestStatus(t *testing.T) {
	body := statusWith(t, `"upstream":{"url":"https://botwire.dev","state":"down","since":"2026-11-21T23:00:00Z",`+
		`"reason":"no answer within 10s","last_success_at":"2026-11-21T22:59:00Z","concurrency":{"limit":16,"now":7,"reason":"it is slow"}},"pending":12,`+
		`"pending_bytes":3482,"oldest_pending_seconds":2.4,"dead_letters":4,"open_dead_letters":1,"conflicts":2,"later":{"a":[1]},"namespaces":[`+
		`{"namespace":"a","pending":12,"pending_bytes":3482,"oldest_pending_seconds":90.2,"paused":"401 from upstream"},`+
		`{"namespace":"b","pending":1,"pending_bytes":4,"oldest_pending_seconds":1,"waits":{"why":"throttled: HTTP 429: no","until":"2023-11-14T22:14:00Z"}},`+
		`{"namespace":"long-name","pending":0,"pending_bytes":0,"oldest_pending_seconds":0,"reads_refused":"HTTP 403: no"},`+
		`{"namespace":"s","pending":0,"sealed":true,"not_opened":"k: it is not sealed"}]`)
	d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, body}})
	wantOutput(t, at(t, d, nil, "status"), statusHead+
		statusVersion+
		"upstream      https://botwire.dev is down since 2026-11-21T23:00:00Z: no answer within 10s (it last answered: 2026-11-21T22:59:00Z)\n"+
		"concurrency   7 of 16: it is slow\n"+
		"pending       12 writes, 3.4KiB, the oldest 2s\n"+
		"dead letters  4: 1 to decide on, 3 superseded or dropped\n"+
		"conflicts     2 conflicts decided by time: botwired history --lost\n"+
		statusTail+
		"\n"+
		"NAMESPACE   PENDING  SIZE    OLDEST  STATE\n"+
		"a           12       3.4KiB  1m30s   401 from upstream\n"+
		"b           1        4B      1s      throttled: HTTP 429: no, until 2023-11-14T22:14:00Z\n"+
		"long-name   0        0B      -       reads: HTTP 403: no\n"+
		"s (sealed)  0        0B      -       refused: k: it is not sealed\n")
	wantOutput(t, at(t, d, nil, "status", "--json"), body+"\n")
}

// With quotas, the table shows how much of each is used, and how long writes wait because of it.
func TestStatusOfQuotas(t *testing.T) {
	body := statusWith(t, `"pending":3,"namespaces":[`+
		`{"namespace":"all","quota":{"limit":40,"used":40,"left":0,"linger_seconds":7200,"runs_out_at":"2026-11-21T22:00:00Z"}},`+
		`{"namespace":"busy","pending":3,"pending_bytes":30,"oldest_pending_seconds":90,"waits":null,`+
		`"quota":{"limit":1000,"used":812,"left":188,"resets_at":"2026-11-22T00:00:00Z","linger_seconds":321.5,"runs_out_at":"2026-11-21T23:30:00Z"}},`+
		`{"namespace":"quiet","pending":0,"quota":{"limit":1000,"used":3,"left":997,"linger_seconds":0.1}},`+
		`{"namespace":"without","pending":0,"quota":null}]`)
	d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, body}})
	got := at(t, d, nil, "status").stdout
	if _, table, _ := strings.Cut(got, "/data\n\n"); table != ""+
		"NAMESPACE  PENDING  SIZE  OLDEST  STATE  QUOTA\n"+
		"all        0        0B    -       -      40 of 40, writes wait 2h, used up at 2026-11-21T22:00:00Z\n"+
		"busy       3        30B   1m30s   -      812 of 1000, writes wait 5m22s\n"+
		"quiet      0        0B    -       -      3 of 1000\n"+
		"without    0        0B    -       -      -\n" {
		t.Errorf("printed %q", got)
	}
	if got := at(t, d, atNine, "status").stdout; !strings.Contains(got, "40 of 40, writes wait 2h, used up 23 h…") {
		t.Errorf("printed on a terminal %q", got)
	}
}

// The status begins with all findings, the most urgent first, and says what to do.
func TestStatusBeginsWithTheFindings(t *testing.T) {
	body := statusWith(t, `"ready":false,"journal":{"refuses_writes":true,"reason":"journal full: so and so","since":"2026-11-21T23:00:00.123Z"},`+
		`"summary":{"level":"critical","text":"Writes are refused: journal full","since":"2026-11-21T23:00:00.123Z","remedy":"raise it",`+
		`"also":[{"level":"warning","text":"Upstream is \u001b down","since":null,"remedy":null}]}`)
	d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, body}})
	table, asJSON := at(t, d, nil, "status"), at(t, d, nil, "status", "--json")
	want := "Writes are refused: journal full (began at 2026-11-21T23:00:00Z)\nraise it\n\nUpstream is   down\n\n" + statusVersion
	if !strings.HasPrefix(table.stdout, want) || table.code != 0 {
		t.Errorf("exit %d, printed %q", table.code, table.stdout)
	}
	wantOutput(t, asJSON, body+"\n")
}

// The table says all that is wrong with a namespace.
func TestStatusOfNamespaces(t *testing.T) {
	body := statusWith(t, `"namespaces":[`+
		`{"namespace":"lost","pending":0,"reads_refused":"HTTP 403","data_loss":{"since":"2026-11-22T10:00:00Z","missing":40,"of":50}},`+
		`{"namespace":"nearly","pending":0,"bytes":8000,"bytes_limit":10000},`+
		`{"namespace":"roomy","pending":0,"bytes":7999,"bytes_limit":10000}]`)
	d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, body}})
	got := at(t, d, nil, "status").stdout
	if _, table, _ := strings.Cut(got, "/data\n\n"); table != ""+
		"NAMESPACE  PENDING  SIZE  OLDEST  STATE\n"+
		"lost       0        0B    -       data loss since 2026-11-22T10:00:00Z: upstream lacks 40 of 50; reads: HTTP 403\n"+
		"nearly     0        0B    -       holds about 8000 of 10000 bytes\n"+
		"roomy      0        0B    -       -\n" {
		t.Errorf("printed %q", got)
	}
}

// The table of the status is limited: first the namespaces that wait, then those with the most to send.
func TestStatusOfManyNamespaces(t *testing.T) {
	var namespaces []string
	for i := range 1500 {
		namespaces = append(namespaces, fmt.Sprintf(`{"namespace":"n%d","pending":1}`, i))
	}
	namespaces = append(namespaces, `{"namespace":"busy","pending":7}`, `{"namespace":"stuck","pending":1,"waits":{"why":"unanswered: x"}}`)
	body := statusWith(t, `"pending":1508,"upstream":{"url":"u","state":"down","since":"2026-11-21T23:00:00Z","reason":"r","last_success_at":null},`+
		`"namespaces":[`+strings.Join(namespaces, ",")+`]`)
	d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, body}})
	lines := strings.Split(strings.Replace(at(t, d, nil, "status").stdout, statusTail, "", 1), "\n")[2:] // without statusHead
	if len(lines) != 4+2+20+2 || !strings.HasPrefix(lines[6], "stuck ") || !strings.HasPrefix(lines[7], "busy ") || lines[26] != "and 1482 more namespaces: --all shows them" {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	if want := "down since 2026-11-21T23:00:00Z: r (it has not answered since the start)"; !strings.HasSuffix(lines[1], want) {
		t.Errorf("%q does not end with %q", lines[1], want)
	}
	if all := at(t, d, nil, "status", "--all").stdout; strings.Count(all, "\n") != 2+4+5+2+1502 || strings.Contains(all, "more") {
		t.Errorf("--all shows %d lines", strings.Count(all, "\n"))
	}
	wantOutput(t, at(t, d, nil, "status", "--json"), body+"\n")
}

// The exit code is the probe's result.
func TestStatusAsksWhetherTheDaemonIsReady(t *testing.T) {
	ready := newDaemon(t, map[string]answer{"GET /_botwired/readyz": {200, `{"status":"ready"}`}})
	wantOutput(t, at(t, ready, nil, "status", "--ready"), "ready\n")
	wantOutput(t, at(t, ready, nil, "status", "--ready", "--json"), `{"status":"ready"}`+"\n")
	full := newDaemon(t, map[string]answer{"GET /_botwired/readyz": {503, `{"detail":"not ready: the journal is full"}`}})
	wantFailure(t, at(t, full, nil, "status", "--ready"), cli.ExitError, "botwired: not ready: the journal is full\n")
	other := newDaemon(t, map[string]answer{"GET /_botwired/readyz": {200, `{"status":"ok"}`}, "GET /_botwired/livez": {200, `{"status":"ok"}`}})
	for _, args := range [][]string{{"--ready"}, {"--ready", "--json"}, {"--live"}, {"--live", "--json"}} {
		wantFailure(t, at(t, other, nil, append([]string{"status"}, args...)...), cli.ExitError, "another program than botwired listens", other.address)
	}
	live := newDaemon(t, map[string]answer{"GET /_botwired/livez": {200, `{"status":"alive"}`}})
	wantOutput(t, at(t, live, nil, "status", "--live"), "alive\n")
}

func TestStatusOfAnotherProgram(t *testing.T) {
	for _, other := range []string{`{}`, `{"status":"ok"}`, `{"version":"9.1"}`, `"hello"`} {
		d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, other}})
		wantFailure(t, at(t, d, nil, "status"), cli.ExitError, "another program than botwired listens", d.address)
		wantFailure(t, at(t, d, nil, "status", "--json"), cli.ExitError, "another program than botwired listens", d.address)
	}
	list := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, `[]`}})
	wantFailure(t, at(t, list, nil, "status"), cli.ExitError, "another program than botwired listens")
	locked := newDaemon(t, map[string]answer{"GET /_botwired/status": {401, `{"detail":"a token is needed"}`}})
	wantFailure(t, at(t, locked, nil, "status"), cli.ExitError, "a token is needed (HTTP 401)")
}

func TestPending(t *testing.T) {
	body := `{"pending":[{"seq":7,"namespace":"ns","key":"k","op":"put","bytes":3,"author":"an agent","written_at":1700000005,"since":1700000000,"attempts":2,` +
		`"last_error":"HTTP 403: no","next_attempt_at":"2023-11-14T22:14:00Z",` +
		`"waits":{"why":"paused: HTTP 403: no","until":null}},` +
		`{"seq":8,"namespace":"ns","key":"..","op":"delete","written_at":1700000001.9,"since":1700000001.9,"attempts":0,"last_error":"HTTP 503\nfrom \u001b[31mupstream"}]}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/pending?limit=100":            {200, body},
		"GET /_botwired/pending?limit=5&namespace=ns": {200, `{"pending":[]}`},
	})
	wantOutput(t, at(t, d, nil, "pending"), ""+
		"SEQ  NAMESPACE  KEY  OP      AUTHOR    BYTES  WAITS SINCE           ATTEMPTS  NEXT ATTEMPT          WHY\n"+
		"7    ns         k    put     an agent  3      2023-11-14T22:13:20Z  2         2023-11-14T22:14:00Z  paused: HTTP 403: no\n"+
		"8    ns         ..   delete  -         0      2023-11-14T22:13:21Z  0         -                     HTTP 503 from  [31mupstream\n")
	wantOutput(t, at(t, d, nil, "pending", "--json"), body+"\n")
	wantOutput(t, at(t, d, nil, "pending", "--limit", "5", "--namespace", "ns"),
		"SEQ  NAMESPACE  KEY  OP  AUTHOR  BYTES  WAITS SINCE  ATTEMPTS  NEXT ATTEMPT  WHY\n")
}

// A reason that all writes share stands once, below them.
func TestPendingSaysASharedReasonOnce(t *testing.T) {
	write := `{"seq":1,"namespace":"ns","key":"k","op":"put","since":1700000000,"attempts":3,"last_error":"no","waits":{"why":"upstream is down: no"}}`
	d := newDaemon(t, map[string]answer{"GET /_botwired/pending?limit=100": {200, `{"pending":[` + write + `,` + write + `]}`}})
	row := "1    ns         k    put  -       0      2023-11-14T22:13:20Z  3         -\n"
	wantOutput(t, at(t, d, nil, "pending"), ""+
		"SEQ  NAMESPACE  KEY  OP   AUTHOR  BYTES  WAITS SINCE           ATTEMPTS  NEXT ATTEMPT\n"+row+row+
		"\nAll of them wait: upstream is down: no\n")
}

// If an entry waits for something, the end of that is its next attempt.
func TestPendingNamesOneTime(t *testing.T) {
	d := newDaemon(t, map[string]answer{"GET /_botwired/pending?limit=100": {200, `{"pending":[{"seq":1,"next_attempt_at":"2023-11-14T22:13:59.9Z",` +
		`"waits":{"why":"upstream is down: no","until":"2023-11-14T22:14:02Z"}}]}`}})
	got := at(t, d, nil, "pending").stdout
	if !strings.Contains(got, " 2023-11-14T22:14:02Z  upstream is down: no\n") || strings.Contains(got, "until") || strings.Contains(got, "22:13:59") {
		t.Errorf("it shows\n%s", got)
	}
}

// A list that lacks some pending writes says so, on stderr.
func TestPendingTellsOfMore(t *testing.T) {
	writes := func(n int) answer {
		return answer{200, `{"pending":[` + strings.TrimSuffix(strings.Repeat(`{"seq":1},`, n), ",") + `]}`}
	}
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/status":            {200, statusWith(t, `"pending":15000,"namespaces":[{"namespace":"few","pending":3},{"namespace":"many","pending":1500}]`)},
		"GET /_botwired/pending?limit=100": writes(100), "GET /_botwired/pending?limit=10000": writes(10_000),
		"GET /_botwired/pending?limit=100&namespace=few": writes(3), "GET /_botwired/pending?limit=100&namespace=many": writes(100),
		"GET /_botwired/pending?limit=2&namespace=few": writes(2), "GET /_botwired/pending?limit=100&namespace=none": writes(0),
	})
	for _, test := range []struct {
		args []string
		says string
	}{
		{nil, "100 of 15000 pending writes shown, the longest waiting first: --limit 10000 lists as many\n"},
		{[]string{"--namespace", "many"}, "100 of 1500 pending writes shown, the longest waiting first: --limit 1500 lists as many\n"},
		{[]string{"--namespace", "few", "--limit", "2"}, "2 of 3 pending writes shown, the longest waiting first: --limit 3 lists as many\n"},
		{[]string{"--limit", "10000"}, "10000 of 15000 pending writes shown, the longest waiting first\n"},
		{[]string{"--namespace", "few"}, ""},
		{[]string{"--namespace", "none"}, ""},
	} {
		for _, args := range [][]string{test.args, append(test.args, "--json")} {
			if got := at(t, d, nil, append([]string{"pending"}, args...)...); got.stderr != test.says || got.code != cli.ExitOK {
				t.Errorf("%v: exit code %d, stderr %q", args, got.code, got.stderr)
			}
		}
	}
}

func TestDeadLetters(t *testing.T) {
	letter := func(id, kind, more string) string {
		return `{"id":"` + id + `","kind":"` + kind + `",` + more + `"seq":41,"namespace":"ns","key":"k","op":"put","author":"an agent","status":413,` +
			`"error":"Value too large","written_at":1700000000,"refused_at":1700000060.5}`
	}
	body := `{"dead_letters":[` + strings.Join([]string{
		letter("1", "refused", `"superseded_by":1000000,`), strings.Replace(letter("2", "dropped", ""), "413", "0", 1), letter("3", "refused", ""),
		letter("5", "", ""),
	}, ",") + `]}`
	d := newDaemon(t, map[string]answer{"GET /_botwired/dead-letters?limit=1000": {200, body}})
	wantOutput(t, at(t, d, nil, "dead-letters"), ""+
		"ID  STATE                  SEQ  NAMESPACE  KEY  OP   WRITTEN               STATUS  ERROR\n"+
		"3   open                   41   ns         k    put  2023-11-14T22:13:20Z  413     Value too large\n"+
		"5   open                   41   ns         k    put  2023-11-14T22:13:20Z  413     Value too large\n"+
		"1   superseded by 1000000  41   ns         k    put  2023-11-14T22:13:20Z  413     Value too large\n"+
		"2   dropped                41   ns         k    put  2023-11-14T22:13:20Z  -       Value too large\n")
	wantOutput(t, at(t, d, nil, "dead-letters", "--json"), body+"\n")
}

// The command reads page after page.
func TestDeadLettersOnManyPages(t *testing.T) {
	page := func(first, n int) answer {
		letters := make([]string, n)
		for i := range letters {
			letters[i] = letterOf(first+i, "<ns>") + "}"
		}
		return answer{200, `{"dead_letters":[` + strings.Join(letters, ",") + `]}`}
	}
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/dead-letters?limit=1000":            page(1, 1000),
		"GET /_botwired/dead-letters?after=1000&limit=1000": page(1001, 1000),
		"GET /_botwired/dead-letters?after=2000&limit=1000": page(2001, 2),
	})
	wantOutput(t, at(t, d, nil, "dead-letters", "--json"), page(1, 2002).body+"\n")
	if got := strings.Count(at(t, d, nil, "dead-letters").stdout, "\n"); got != 1+2002 {
		t.Errorf("%d lines", got)
	}
}

func TestDecisionsOnDeadLetters(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/dead-letters/3/retry": {200, `{}`},
		"POST /_botwired/dead-letters/4/retry": {404, `{"detail":"no such dead letter"}`},
		"POST /_botwired/dead-letters/5/retry": {202, `{}`},
		"DELETE /_botwired/dead-letters/3":     {200, `{}`},
		"DELETE /_botwired/dead-letters/a%2Fb": {200, `{}`},
	})
	wantOutput(t, at(t, d, nil, "dead-letters", "retry", "3"), "retried 1 dead letter\n")
	wantOutput(t, at(t, d, nil, "dead-letters", "retry", "3", "5", "--json"), `{"retried":["3","5"]}`+"\n")
	wantOutput(t, at(t, d, nil, "dead-letters", "delete", "3", "a/b"), "deleted 2 dead letters\n")

	partly := at(t, d, nil, "dead-letters", "retry", "3", "4", "5")
	if partly.stdout != "retried 2 dead letters\n" {
		t.Errorf("stdout %q", partly.stdout)
	}
	partly.stdout = ""
	wantFailure(t, partly, cli.ExitError, "botwired: there is no dead letter 4: it may have been retried or deleted\n")
	wantFailure(t, at(t, d, nil, "dead-letters", "retry", "4", "9"), cli.ExitError, "there is no dead letter 4", "deleted; not asked for")
	if got := at(t, d, nil, "dead-letters", "retry", "4", "--json").stdout; got != `{"retried":[]}`+"\n" {
		t.Errorf("JSON of nothing done: %q", got)
	}
}

func TestRetryOfAllDeadLetters(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/dead-letters/retry":              {200, `{"retried":300,"skipped":0}`},
		"POST /_botwired/dead-letters/retry?namespace=1":  {200, `{"retried":1,"skipped":0}`},
		"POST /_botwired/dead-letters/retry?namespace=ns": {200, `{"retried":2,"skipped":1}`},
	})
	wantOutput(t, at(t, d, nil, "dead-letters", "retry", "--all", "--yes"), "retried 300 dead letters\n")
	wantOutput(t, at(t, d, nil, "dead-letters", "retry", "--all", "--yes", "--namespace", "ns"),
		"retried 2 dead letters, skipped 1: a newer write to the same entry is known, or a person has dropped them\n")
	wantOutput(t, at(t, d, nil, "dead-letters", "retry", "--all", "--yes", "--namespace", "1"), "retried 1 dead letter\n")
	wantOutput(t, at(t, d, nil, "dead-letters", "retry", "--all", "--yes", "--json"), `{"retried":300,"skipped":0}`+"\n")
	wantFailure(t, at(t, d, nil, "dead-letters", "retry", "--namespace", "ns", "3"), cli.ExitUsage, "--namespace is for --all")
	wantFailure(t, at(t, d, nil, "dead-letters", "retry", "--all", "--yes", "3"), cli.ExitUsage)
}
