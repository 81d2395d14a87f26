package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
)

func TestShowOfADeadLetter(t *testing.T) {
	body := `{"id":"3","kind":"refused","seq":3,"namespace":"ns","key":"k","op":"put","author":"an agent","status":413,"error":"HTTP 413: too\nlarge",` +
		`"written_at":1700000000,"refused_at":1700000060.5,"value":"a\nb\u001b[2J"}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/dead-letters/3": {200, body},
		"GET /_botwired/dead-letters/4": {200, `{"id":"4","namespace":"ns","key":"k","op":"delete","value":null}`},
		"GET /_botwired/dead-letters/7": {200, `{"id":"7","kind":"dropped","namespace":"ns","key":"k","op":"put","status":0,"error":"dropped by hand",` +
			`"written_at":1700000000,"refused_at":1700000060.5,"value":"a"}`},
		"GET /_botwired/dead-letters/5": {404, `{"detail":"no such dead letter: 5"}`},
		"GET /_botwired/dead-letters/6": {500, `{"detail":"internal error"}`},
	})
	wantOutput(t, at(t, d, nil, "dead-letters", "show", "3"), "a\nb\x1b[2J")
	wantOutput(t, at(t, d, nil, "dead-letters", "show", "3", "--json"), body+"\n")
	wantOutput(t, at(t, d, onTerminal, "dead-letters", "show", "3"), ""+
		"id         3\n"+
		"state      open\n"+
		"namespace  ns\n"+
		"key        k\n"+
		"op         put\n"+
		"written    2023-11-14T22:13:20Z\n"+
		"ended      2023-11-14T22:14:20Z\n"+
		"author     an agent\n"+
		"status     413\n"+
		"error      HTTP 413: too large\n"+
		"\n"+
		"a\nb\\x1b[2J\n")
	wantOutput(t, at(t, d, onTerminal, "dead-letters", "show", "7"), ""+
		"id         7\n"+
		"state      dropped\n"+
		"namespace  ns\n"+
		"key        k\n"+
		"op         put\n"+
		"written    2023-11-14T22:13:20Z\n"+
		"ended      2023-11-14T22:14:20Z\n"+
		"error      dropped by hand\n"+
		"\n"+
		"a\n")
	wantFailure(t, at(t, d, nil, "dead-letters", "show", "4"), cli.ExitError, "dead letter 4 is a delete, which has no value")
	if got := at(t, d, onTerminal, "dead-letters", "show", "4"); got.code != cli.ExitOK || !strings.Contains(got.stdout, "op         delete\n") {
		t.Errorf("of a delete: %+v", got)
	}
	wantFailure(t, at(t, d, nil, "dead-letters", "show", "5"), cli.ExitError, "botwired: there is no dead letter 5: it may have been retried or deleted\n")
	wantFailure(t, at(t, d, nil, "dead-letters", "show", "6"), cli.ExitError, "internal error (HTTP 500)")
	wantFailure(t, at(t, d, nil, "dead-letters", "show"), cli.ExitUsage, "botwired dead-letters show ID")
}

// letterOf returns the beginning of a dead letter's JSON, as the daemon writes it.
func letterOf(id int, namespace string) string {
	return fmt.Sprintf(`{"id":"%d","kind":"refused","seq":%d,"namespace":"%s","key":"k","op":"put","author":"an agent","status":413,"error":"Value too large",`+
		`"written_at":1700000000,"refused_at":1700000060.5`, id, id, namespace)
}

// letters returns a daemon's dead letters. The first page is full, and one more letter each in ns and
// other follows. 1001 was retried after the list was made.
func letters() map[string]answer {
	var first []string
	answers := make(map[string]answer)
	has := func(id int, namespace string) string {
		letter := letterOf(id, namespace)
		target := fmt.Sprintf("/_botwired/dead-letters/%d", id)
		answers["GET "+target] = answer{200, letter + `,"value":"v"}` + "\n"}
		answers["DELETE "+target] = answer{200, `{}`}
		return letter + "}"
	}
	for id := range 1000 {
		first = append(first, has(id+1, "ns"))
	}
	second := []string{has(1001, "ns"), has(1002, "other"), has(1003, "ns")}
	for _, method := range []string{"GET", "DELETE"} {
		answers[method+" /_botwired/dead-letters/1001"] = answer{404, `{"detail":"no such dead letter: 1001"}`}
	}
	for query, page := range map[string][]string{"limit=1000": first, "after=1000&limit=1000": second} {
		answers["GET /_botwired/dead-letters?"+query] = answer{200, `{"dead_letters":[` + strings.Join(page, ",") + `]}`}
	}
	return answers
}

func TestShowOfAllDeadLetters(t *testing.T) {
	d := newDaemon(t, letters())
	got := at(t, d, nil, "dead-letters", "show", "--all")
	lines := strings.Split(got.stdout, "\n")
	if len(lines) != 1002+1 || got.stderr != "" || got.code != cli.ExitOK {
		t.Fatalf("%d lines, exit code %d, stderr %q", len(lines), got.code, got.stderr)
	}
	last := []string{letterOf(1000, "ns") + `,"value":"v"}`, letterOf(1002, "other") + `,"value":"v"}`, letterOf(1003, "ns") + `,"value":"v"}`, ""}
	if diff := cmp.Diff(last, lines[999:]); diff != "" {
		t.Errorf("the last lines (-want +got):\n%s", diff)
	}
	wantOutput(t, at(t, d, nil, "dead-letters", "show", "--all", "--namespace", "other"), lines[1000]+"\n")
	wantOutput(t, at(t, d, nil, "dead-letters", "--json", "--namespace", "other"), `{"dead_letters":[`+letterOf(1002, "other")+"}]}\n")
	d.answers["GET /_botwired/dead-letters/1002"] = answer{503, `{"detail":"shutting down"}`}
	wantFailure(t, at(t, d, nil, "dead-letters", "show", "--all", "--namespace", "other"), cli.ExitError, "shutting down")
}

func TestDeleteOfAllDeadLetters(t *testing.T) {
	d := newDaemon(t, letters())
	all := []string{"dead-letters", "delete", "--all"}
	deleted := func() (ids []string) {
		for _, each := range d.asked {
			if id, ok := strings.CutPrefix(each.Target, "DELETE /_botwired/dead-letters/"); ok {
				ids = append(ids, id)
			}
		}
		d.asked = nil
		return ids
	}
	replying := func(reply string) func(*cli.Program) {
		return func(p *cli.Program) {
			onTerminal(p)
			p.Stdin = strings.NewReader(reply)
		}
	}
	for _, no := range []string{"", "\n", "n\n", "yesno\n"} {
		got := at(t, d, replying(no), all...)
		newline := ""
		if no == "" {
			newline = "\n"
		}
		if want := "Delete 1003 dead letters of all namespaces for good? [y/N] " + newline + "botwired: nothing is changed\n"; got.stderr != want || got.code != cli.ExitError {
			t.Errorf("%q: exit code %d, stderr %q", no, got.code, got.stderr)
		}
	}
	// A program may have only one of the two streams on a terminal.
	for name, has := range map[string]func(p *cli.Program, stream any) bool{
		"none": func(*cli.Program, any) bool { return false }, "stdin": func(p *cli.Program, stream any) bool { return stream == p.Stdin },
		"stderr": func(p *cli.Program, stream any) bool { return stream == p.Stderr },
	} {
		some := func(p *cli.Program) {
			p.Stdin = strings.NewReader("y\n")
			p.IsTerminal = func(stream any) bool { return has(p, stream) }
		}
		got := at(t, d, some, all...)
		t.Run(name, func(t *testing.T) { wantFailure(t, got, cli.ExitUsage, "no terminal to ask at: add --yes\n") })
	}
	if ids := deleted(); len(ids) > 0 {
		t.Fatalf("without a yes it deleted %q", ids)
	}
	got := at(t, d, replying("Y\n"), append(all, "--namespace", "other")...)
	if got.stdout != "deleted 1 dead letter\n" || got.stderr != "Delete 1 dead letter of the namespace other for good? [y/N] " || got.code != cli.ExitOK {
		t.Errorf("one namespace: %+v", got)
	}
	if diff := cmp.Diff([]string{"1002"}, deleted()); diff != "" {
		t.Errorf("of one namespace (-want +got):\n%s", diff)
	}
	wantOutput(t, at(t, d, nil, append(all, "--yes")...), "deleted 1002 dead letters\n") // another one was already gone
	if ids := deleted(); len(ids) != 1003 {
		t.Errorf("%d are deleted", len(ids))
	}
	wantOutput(t, at(t, d, nil, append(all, "--yes", "--json", "--namespace", "other")...), `{"deleted":["1002"]}`+"\n")
	wantOutput(t, at(t, d, onTerminal, append(all, "--namespace", "none")...), "deleted 0 dead letters\n")
}

// An error ends the deletion, and the output says what was deleted.
func TestDeleteOfAllDeadLettersThatFails(t *testing.T) {
	d := newDaemon(t, letters())
	d.answers["DELETE /_botwired/dead-letters/3"] = answer{503, `{"detail":"shutting down"}`}
	got := at(t, d, nil, "dead-letters", "delete", "--all", "--yes")
	if got.stdout != "deleted 2 dead letters\n" || got.stderr != "botwired: shutting down\n" || got.code != cli.ExitError {
		t.Errorf("%+v", got)
	}
	wantFailure(t, at(t, d, nil, "dead-letters", "delete", "--namespace", "ns", "3"), cli.ExitUsage, "--namespace is for --all")
}

// Ctrl-C ends the question, although a read from the terminal would block.
func TestQuestionIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, typed := io.Pipe()
	var stderr strings.Builder
	p := &cli.Program{Terminal: term.Terminal{Stdin: in, Stderr: &stderr}}
	cancel()
	if err := p.Confirm(ctx, "Delete?"); !errors.Is(err, context.Canceled) || stderr.String() != "Delete? [y/N] \n" {
		t.Errorf("%v, %q", err, stderr.String())
	}
	typed.Close() // so that the reader ends
}

func TestRetryThatUndoesANewerWrite(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/dead-letters/3/retry":            {409, `{"detail":"a newer write to the entry is known"}`},
		"POST /_botwired/dead-letters/3/retry?force=true": {200, `{}`},
		"POST /_botwired/dead-letters/4/retry":            {200, `{}`},
	})
	got := at(t, d, nil, "dead-letters", "retry", "3", "4")
	if got.stdout != "retried 1 dead letter\n" || got.code != cli.ExitError ||
		got.stderr != "botwired: dead letter 3: a newer write to its entry is known, and the retry would undo it: --force retries it all the same\n" {
		t.Errorf("%+v", got)
	}
	wantOutput(t, at(t, d, nil, "dead-letters", "retry", "--force", "3"), "retried 1 dead letter\n")
	wantFailure(t, at(t, d, nil, "dead-letters", "retry", "--force", "--all", "--yes"), cli.ExitUsage, "--force is for IDs")
}

// The null device does not count as a terminal.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if term.IsTerminal(null) {
		t.Error("it is taken for a terminal")
	}
}
