package api_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/botwired/botwired/api"
)

// endless is a program that answers without end.
type endless struct{ status, sent int }

func (e *endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: e.status, Body: io.NopCloser(e)}, nil
}

func (e *endless) Read(p []byte) (int, error) {
	e.sent += copy(p, bytes.Repeat([]byte{'1'}, len(p)))
	return len(p), nil
}

// A client takes only so much of an answer without end.
func TestAnswersWithoutEnd(t *testing.T) {
	for status, most := range map[int]int{http.StatusOK: 65 << 20, http.StatusBadGateway: 2 << 20} {
		program := &endless{status: status}
		_, err := api.NewClient(api.Options{Transport: program}).Status(t.Context())
		if refused := api.IsRefused(err, status); !refused && !errors.Is(err, api.ErrForeign) || program.sent > most {
			t.Errorf("HTTP %d: %d bytes are read: %v", status, program.sent, err)
		}
	}
}
