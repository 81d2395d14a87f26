package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/botwired/botwired/proof/machine"
	"github.com/botwired/botwired/proof/marked"
)

// write prints the table, and writes it into a page if one is named.
func (r *result) write(ctx context.Context, page string) error {
	text := r.table(ctx)
	fmt.Print(text)
	if page == "" {
		return nil
	}
	return marked.Write(page, "scale", text)
}

func (r *result) table(ctx context.Context) string {
	var b strings.Builder
	row := func(name, bucket, sqlite string) { fmt.Fprintf(&b, "| %s | %s | %s |\n", name, bucket, sqlite) }
	row("", "three NATS servers", "BotWire's service with SQLite")
	row("---", "---", "---")
	row("a write here is read there: median and 99th percentile", r.Watched.String(), r.Unwatched.String())
	row("the same with `flush.linger: 1ms`", r.WatchedAtOnce.String(), "")
	row(fmt.Sprintf("the daemon's memory with %s entries upstream", thousands(r.Entries)), fmt.Sprintf("%s, with none %s", mebibytes(r.After), mebibytes(r.Before)), "")
	row(fmt.Sprintf("%s pending writes drain", thousands(r.Drained)), r.OverBucket.rate(r.Drained), r.OverSQLite.rate(r.Drained))
	row(fmt.Sprintf("LIST of the newest 1,000 of %s keys, through the daemon", thousands(r.Keys)), r.ListBucket.String(), r.ListThrough.String())
	row("the same, without a daemon", "", r.ListSQLite.String())
	fmt.Fprintf(&b, "\n%s, %d cores, %s, %s, commit %s.\n", machine.Processor(), runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format(time.DateOnly), machine.Commit(ctx))
	return b.String()
}

// String shows both percentiles, and nothing if they were not measured.
func (d delay) String() string {
	if d.Most == 0 {
		return ""
	}
	return short(d.Half) + ", " + short(d.Most)
}

// short shows a time with two or three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0f µs", d.Seconds()*1e6)
}

func (d drain) rate(count int) string {
	if d.Took == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s a second", short(d.Took), thousands(int(float64(count)/d.Took.Seconds())))
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// thousands writes a number as people do.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
