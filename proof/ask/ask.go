// Package ask asks a daemon over HTTP for tests that judge any answer, also one that is not botwired's.
package ask

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"
)

// NewClient returns a client for many callers at once. An answer that does not come within
// a minute counts as none.
func NewClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
}

// Answer is an answer of any status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Once makes one request, with a JSON body or none, and with these headers: names and values in turn. Its error
// means that there was no whole answer.
func Once(ctx context.Context, client *http.Client, method, url string, body []byte, headers ...string) (a Answer, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := client.Do(request)
	if err != nil {
		return a, err
	}
	a = Answer{Status: response.StatusCode, Header: response.Header}
	a.Body, err = io.ReadAll(response.Body)
	return a, errors.Join(err, response.Body.Close())
}
