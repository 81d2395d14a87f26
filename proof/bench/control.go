package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// settleWithin bounds the wait until the daemon has carried its writes upstream.
const settleWithin = 2 * time.Minute

// ask makes one request that nobody measures, and returns the body of a 200.
func ask(ctx context.Context, method, address, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Close = true
	body, err := bodyOf(req)
	return string(body), err
}

// bodyOf makes a request, and returns the body of a 200.
func bodyOf(req *http.Request) ([]byte, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: HTTP %d: %s", req.Method, req.URL.RequestURI(), resp.StatusCode, body)
	}
	return body, err
}

// flush waits until upstream has every write so far.
func flush(ctx context.Context, address string) error {
	_, err := ask(ctx, http.MethodPost, address, "/_botwired/flush?timeout="+(settleWithin-time.Second).String())
	return err
}

// metric returns the sum of a daemon's metric over the series whose name and labels
// contain all of the parts.
func metric(ctx context.Context, address string, parts ...string) (sum float64, err error) {
	text, err := ask(ctx, http.MethodGet, address, "/_botwired/metrics")
	if err != nil {
		return 0, err
	}
	return sumOf(text, parts...)
}

// sumOf reads Prometheus text. No label here holds a space.
func sumOf(text string, parts ...string) (sum float64, err error) {
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || series == "#" || !containsAll(series, parts) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", series, err)
		}
		sum += v
	}
	return sum, nil
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// elsewhere counts the reads that the daemon did not answer from its own copies.
func elsewhere(ctx context.Context, address string) (n float64, err error) {
	all, err := metric(ctx, address, "botwired_request_seconds_count{")
	if err != nil {
		return 0, err
	}
	for _, outcome := range []string{"hit", "pending", "stale", "acknowledged"} {
		here, err := metric(ctx, address, "botwired_request_seconds_count{", `outcome="`+outcome+`"`)
		if err != nil {
			return 0, err
		}
		all -= here
	}
	return all, nil
}
