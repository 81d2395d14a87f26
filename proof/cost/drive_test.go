package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that counts its requests, and returns a batch of PUTs to it.
func serve(t *testing.T, came *atomic.Int64) batch {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came.Add(1)
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	return batch{address, 8, 3, 20, puts(address, oneKey), answered("200")}
}

// Between begin and end, the server gets the requests that count, and no others.
func TestABatchCountsItsRequests(t *testing.T) {
	var came atomic.Int64
	b := serve(t, &came)
	var before, after int64
	err := b.run(t.Context(),
		func() error { before = came.Load(); return nil },
		func() error { after = came.Load(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if before != 8*3 || after-before != int64(b.requests()) || came.Load() != int64(8*b.all()) {
		t.Errorf("%d requests came before, %d between, %d in all", before, after-before, came.Load())
	}
}

// A count that cannot begin, or end, fails the batch.
func TestABatchThatCannotBeCounted(t *testing.T) {
	broken := errors.New("broken")
	fails, goes := func() error { return broken }, func() error { return nil }
	for _, each := range [][2]func() error{{fails, goes}, {goes, fails}} {
		var came atomic.Int64
		b := serve(t, &came)
		if err := b.run(t.Context(), each[0], each[1]); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	}
}

// One refusal fails the batch, while the other connections wait for that one.
func TestABatchThatIsRefused(t *testing.T) {
	var came, answers atomic.Int64
	b := serve(t, &came)
	refused := errors.New("refused")
	b.answer = func(read []byte) (int, error) {
		if answers.Add(1) == 5 {
			return 0, refused
		}
		return answered("200")(read)
	}
	begun := false
	err := b.run(t.Context(), func() error { begun = true; return nil }, func() error { return nil })
	if !errors.Is(err, refused) || begun {
		t.Errorf("error %v, begun %v", err, begun)
	}
}

func TestAnswers(t *testing.T) {
	const head = "HTTP/1.1 404 Not Found\r\nAge: 3\r\nContent-Length: 12\r\n\r\n"
	for _, test := range []struct {
		name, status, read string
		length             int
		refused            bool
	}{
		{"half a head", "404", head[:30], 0, false},
		{"a head", "404", head, len(head) + 12, false},
		{"another status", "200", head, 0, true},
		{"no length", "404", "HTTP/1.1 404 Not Found\r\n\r\n", 0, true},
	} {
		length, err := answered(test.status)([]byte(test.read))
		if length != test.length || (err != nil) != test.refused {
			t.Errorf("%s: %d, %v", test.name, length, err)
		}
	}
}
