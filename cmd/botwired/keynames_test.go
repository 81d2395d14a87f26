package main

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// Commands take a key that BotWire would refuse for the Python package's escape of it, and show the escape as the key.
func TestKeysOfThePythonPackage(t *testing.T) {
	const wire, states = "_.customer.3A8", `{"namespace":"shop","key":"_.customer.3A8","revisions":[` +
		`{"revision":2,"state":"settled","op":"put","value":"new","bytes":3,"updated_at":1700000000},` +
		`{"revision":1,"state":"settled","op":"put","value":"old","bytes":3,"updated_at":1600000000}]}`
	d := newDaemon(t, map[string]answer{
		"GET /memory/shop/" + wire:                                          {200, `{"value":"v","key":"` + wire + `"}`},
		"PUT /memory/shop/" + wire:                                          {200, `{}`},
		"DELETE /memory/shop/" + wire:                                       {200, `{}`},
		"GET /_botwired/revisions?key=_.customer.3A8&namespace=shop":        {200, states},
		"POST /_botwired/undo?key=_.customer.3A8&namespace=shop&to=1":       {200, `{"now":{"revision":3,"value":"old","bytes":3,"updated_at":1700000000}}`},
		"POST /_botwired/pending/drop?key=_.customer.3A8&namespace=shop":    {404, `{"detail":"none"}`},
		"POST /_botwired/forget?key=_.customer.3A8&namespace=shop":          {200, `{"forgotten":1}`},
		"POST /_botwired/purge?key=_.customer.3A8&namespace=shop":           {200, `{"done":true,"as_of":1}`},
		"GET /memory/shop?limit=100":                                        {200, `{"keys":[{"key":"_.customer.3A8","bytes":1},{"key":"_.customer.3a8","bytes":1}]}`},
		"GET /_botwired/dead-letters?limit=1000":                            {200, `{"dead_letters":[{"id":"1","namespace":"shop","key":"_.customer.3A8"}]}`},
		"GET /_botwired/pending?limit=100":                                  {200, `{"pending":[{"seq":1,"namespace":"shop","key":"_.customer.3A8"}]}`},
		"GET /_botwired/entries?after=&limit=1000&namespace=shop&prefix=cu": {200, `{"entries":[{"key":"cube","state":"settled"}],"complete":true}`},
		"GET /_botwired/entries?after=&limit=1000&namespace=shop&prefix=_.cu": {200,
			`{"entries":[{"key":"_.customer.3A8","state":"pending"},{"key":"_.cu.2Eno","state":"settled"}],"complete":true}`},
	})
	for _, key := range []string{"customer:8", wire} {
		wantOutput(t, at(t, d, nil, "get", "shop", key), "v")
		wantOutput(t, at(t, d, nil, "set", "shop", key, "v"), "stored shop/customer:8, 1 character\n")
		wantOutput(t, at(t, d, nil, "delete", "shop", key), "deleted shop/customer:8\n")
		wantOutput(t, at(t, d, nil, "undo", "shop", key, "--to", "1", "--yes"), "undone: shop/customer:8 is as in revision 3 again: 3 characters, written 2023-11-14T22:13:20Z\n")
		wantOutput(t, at(t, d, nil, "forget", "shop", key), "the copy of shop/customer:8 is forgotten: the next read asks upstream\n")
		wantFailure(t, at(t, d, nil, "pending", "drop", "shop", key, "--yes"), cli.ExitError, "no write to shop/customer:8 is pending")
		wantFailure(t, at(t, d, nil, "diff", "shop", key, "9"), cli.ExitError, `revision "9" of shop/customer:8 is not kept`)
		for _, command := range [][]string{{"history", "shop", key}, {"diff", "shop", key}, {"purge", "shop", key, "--yes"}} {
			if got := at(t, d, nil, command...); got.code != cli.ExitOK {
				t.Errorf("%v: %+v", command, got)
			}
		}
	}
	wantOutput(t, at(t, d, nil, "list", "shop"), ""+
		"KEY             BYTES  UPDATED\n"+
		"customer:8      1      1970-01-01T00:00:00Z\n"+
		"_.customer.3a8  1      1970-01-01T00:00:00Z\n")
	wantOutput(t, at(t, d, nil, "list", "shop", "--prefix", "cu"), ""+
		"KEY         BYTES  UPDATED               STATE\n"+
		"customer:8  0      1970-01-01T00:00:00Z  pending\n"+
		"cube  0  1970-01-01T00:00:00Z  settled\n")
	for _, command := range []string{"pending", "dead-letters"} {
		if got := at(t, d, nil, command); !strings.Contains(got.stdout, "customer:8") || strings.Contains(got.stdout, wire) {
			t.Errorf("%s: %+v", command, got)
		}
	}
	wantFailure(t, at(t, d, nil, "set", "shop", strings.Repeat("x", 129), "v"), cli.ExitError, "the key is too long: BotWire takes 128 characters",
		"the Python package keeps it as _-DsnrM-dFELzdHy6lUgboLyFknFwr7L8rQz60dbNMAb0")
}
