package main

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// list --prefix goes page by page, and beyond the 1,000 keys that BotWire lists.
func TestListKnown(t *testing.T) {
	first := `{"key":"user_1","state":"pending","op":"delete","list_bytes":0,"updated_at":1700000000.25,"seq":7}`
	second := `{"key":"user_2","state":"settled","op":"put","list_bytes":12,"updated_at":1700000000,"seq":null}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/entries?after=&limit=1000&namespace=ns&prefix=user_":       {200, `{"entries":[` + first + `],"next":"user_1","complete":true}`},
		"GET /_botwired/entries?after=user_1&limit=1000&namespace=ns&prefix=user_": {200, `{"entries":[` + second + `],"next":null,"complete":true}`},
		"GET /_botwired/entries?after=&limit=1000&namespace=ns&prefix=_.user_":     {200, `{"entries":[],"next":null,"complete":true}`},
		"GET /_botwired/entries?after=&limit=1&namespace=ns&prefix=":               {200, `{"entries":[` + second + `],"next":"user_2","complete":false}`},
		"GET /_botwired/entries?after=&limit=1000&namespace=endless&prefix=":       {200, `{"entries":[],"next":"","complete":false}`},
	})
	wantOutput(t, at(t, d, nil, "list", "ns", "--prefix", "user_"), ""+
		"KEY     BYTES  UPDATED               STATE\n"+
		"user_1  0      2023-11-14T22:13:20Z  pending delete\n"+
		"user_2  12  2023-11-14T22:13:20Z  settled\n") // each page is aligned separately
	wantOutput(t, at(t, d, nil, "list", "ns", "--prefix", "user_", "--json"), first+"\n"+second+"\n")
	got := at(t, d, nil, "list", "ns", "--prefix", "", "--limit", "1")
	if want := "these are the keys that botwired knows, and upstream may have more: it has not listed all of ns\n"; got.code != cli.ExitOK || got.stderr != want {
		t.Errorf("%+v", got)
	}
	wantFailure(t, at(t, d, nil, "list", "endless", "--prefix", ""), cli.ExitError, "another program than botwired")
	wantFailure(t, at(t, d, nil, "list", "n/s", "--prefix", ""), cli.ExitError, "namespace")
}

// list without a namespace lists the namespaces, page by page.
func TestListNamespaces(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/namespaces?limit=1000":         {200, `{"namespaces":[{"namespace":"a","entries":2,"pending":1,"bytes":7}],"next":"a"}`},
		"GET /_botwired/namespaces?after=a&limit=1000": {200, `{"namespaces":[{"namespace":"bc","entries":9,"entries_at_least":true}],"next":null}`},
	})
	wantOutput(t, at(t, d, nil, "list"), ""+
		"NAMESPACE  ENTRIES      PENDING  BYTES\n"+
		"a          2            1        7\n"+
		"bc         more than 9  0        0\n")
	if got := at(t, d, nil, "list", "--json").stdout; strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, `{"namespace":"a",`) {
		t.Errorf("--json prints %s", got)
	}
	wantFailure(t, at(t, d, nil, "list", "--prefix", "x"), cli.ExitUsage, "expected NAMESPACE")
	endless := newDaemon(t, map[string]answer{"GET /_botwired/namespaces?limit=1000": {200, `{"namespaces":[],"next":""}`}})
	wantFailure(t, at(t, endless, nil, "list"), cli.ExitError, "another program than botwired")
}

func TestForgetEntryCommand(t *testing.T) {
	const target = "POST /_botwired/forget?key=k&namespace="
	d := newDaemon(t, map[string]answer{
		target + "ns":      {200, `{"namespace":"ns","key":"k","forgotten":1}`},
		target + "none":    {200, `{"namespace":"none","key":"k","forgotten":0}`},
		target + "pending": {409, `{"detail":"a write is pending"}`},
	})
	wantOutput(t, at(t, d, nil, "forget", "ns", "k"), "the copy of ns/k is forgotten: the next read asks upstream\n")
	wantOutput(t, at(t, d, nil, "forget", "ns", "k", "--json"), `{"namespace":"ns","key":"k","forgotten":1}`+"\n")
	wantOutput(t, at(t, d, nil, "forget", "none", "k"), "there was no copy of none/k here\n")
	wantFailure(t, at(t, d, nil, "forget", "pending", "k"), cli.ExitError, "botwired flush --now")
}
