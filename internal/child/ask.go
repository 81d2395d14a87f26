package child

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// NewClient returns a client for many callers at once. An answer that does not come within
// a minute counts as none.
func NewClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
}

// Ask makes one request with a JSON body. Its error means that there was no whole answer.
func Ask(ctx context.Context, client *http.Client, method, url string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, errors.Join(err, response.Body.Close())
}
