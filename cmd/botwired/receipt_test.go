package main

import (
	"testing"
)

func TestReceiptCommand(t *testing.T) {
	body := `{"seq":3,"namespace":"ns","key":"k","op":"put","state":"dead","written_at":1700000000,"settled_at":1700000060.5,` +
		`"by":null,"reason":"HTTP 413: too\nlarge"}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/receipts/3": {200, body},
		"GET /_botwired/receipts/4": {200, `{"seq":4,"namespace":"ns","key":"k","op":"delete","state":"pending","written_at":1700000000,"settled_at":null,"by":null,"reason":""}`},
		"GET /_botwired/receipts/4?wait=5s": {200, `{"seq":4,"namespace":"ns","key":"k","op":"delete","state":"superseded","written_at":1700000000,` +
			`"settled_at":1700000001,"by":5,"reason":""}`},
		"GET /_botwired/receipts/6": {404, `{"detail":"no such write yet: 6"}`},
	})
	wantOutput(t, at(t, d, nil, "receipt", "3"), ""+
		"seq        3\n"+
		"namespace  ns\n"+
		"key        k\n"+
		"op         put\n"+
		"state      dead\n"+
		"written    2023-11-14T22:13:20Z\n"+
		"ended      2023-11-14T22:14:20Z\n"+
		"reason     HTTP 413: too large\n")
	wantOutput(t, at(t, d, nil, "receipt", "3", "--json"), body+"\n")
	wantOutput(t, at(t, d, nil, "receipt", "4"), ""+
		"seq        4\n"+
		"namespace  ns\n"+
		"key        k\n"+
		"op         delete\n"+
		"state      pending\n"+
		"written    2023-11-14T22:13:20Z\n")
	for _, wait := range []string{"5s", "5"} {
		wantOutput(t, at(t, d, nil, "receipt", "4", "--wait", wait), ""+
			"seq        4\n"+
			"namespace  ns\n"+
			"key        k\n"+
			"op         delete\n"+
			"state      superseded\n"+
			"written    2023-11-14T22:13:20Z\n"+
			"ended      2023-11-14T22:13:21Z\n"+
			"by         5\n")
	}
	wantFailure(t, at(t, d, nil, "receipt", "6"), exitError, "botwired: no such write yet: 6 (HTTP 404)\n")
	wantFailure(t, at(t, d, nil, "receipt", "x"), exitUsage, `SEQ = "x": expected the number of a write`)
	wantFailure(t, at(t, d, nil, "receipt", "4", "--wait", "2m"), exitUsage, `--wait = "2m": expected a duration above zero, at most 1m`)
	wantFailure(t, at(t, d, nil, "receipt"), exitUsage, "botwired receipt SEQ")
}
