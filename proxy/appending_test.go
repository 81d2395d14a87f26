package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// message is LangChain's record of a turn.
type message struct {
	Type string `json:"type"`
	Data struct {
		Content string `json:"content"`
	} `json:"data"`
}

// history appends messages to an entry, as a chat history does, but with conditions. Each has its own
// connections, like a process.
type history struct {
	url    string
	client *http.Client
}

func newHistory(t *testing.T, address string, id journal.ID) *history {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &history{"http://" + address + "/memory/" + id.String(), &http.Client{Transport: transport}}
}

// do returns an answer and its tag.
func (h *history) do(method, body, condition, tag string) (status int, answer []byte, now string, err error) {
	r, err := http.NewRequest(method, h.url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	if condition != "" {
		r.Header.Set(condition, tag)
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := h.client.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = w.Body.Close() }() // all of it has been read
	answer, err = io.ReadAll(w.Body)
	return w.StatusCode, answer, w.Header.Get("ETag"), err
}

// messages returns the messages so far, and the condition that nobody has added any since.
func (h *history) messages() (said []message, condition, tag string, err error) {
	status, answer, tag, err := h.do(http.MethodGet, "", "", "")
	if err != nil || status == http.StatusNotFound {
		return nil, "If-None-Match", "*", err
	}
	var doc struct{ Value string }
	if err := json.Unmarshal(answer, &doc); err != nil {
		return nil, "", "", fmt.Errorf("%d %s: %w", status, answer, err)
	}
	return said, "If-Match", tag, json.Unmarshal([]byte(doc.Value), &said)
}

// add reads, appends and writes until nobody has written in between.
func (h *history) add(content string) error {
	for {
		said, condition, tag, err := h.messages()
		if err != nil {
			return err
		}
		m := message{Type: "human"}
		m.Data.Content = content
		value, err := json.Marshal(append(said, m))
		if err != nil {
			return err
		}
		status, answer, _, err := h.do(http.MethodPut, putBody(string(value)), condition, tag)
		if err != nil || status == http.StatusOK {
			return err
		}
		if status != http.StatusPreconditionFailed {
			return fmt.Errorf("%s %s: %d %s", condition, tag, status, bytes.TrimSpace(answer))
		}
	}
}

// Processes that append to one entry lose nothing of each other's, while their writes settle.
func TestAppendersLoseNothing(t *testing.T) {
	for name, c := range map[string]struct{ histories, messages int }{
		"two chat histories": {2, 60}, "eight processes": {8, 25},
	} {
		t.Run(name, func(t *testing.T) {
			s, k := newSidecar(t), id("n", "chat")
			address := listening(t, s.server)
			var appending, settling sync.WaitGroup
			written := make(chan struct{}, 1)
			for i := range c.histories {
				h := newHistory(t, address, k)
				appending.Go(func() {
					for n := range c.messages {
						if err := h.add(fmt.Sprintf("%d says %d", i, n)); err != nil {
							t.Error(err)
							return
						}
						select {
						case written <- struct{}{}:
						default: // the last one is still settling
						}
					}
				})
			}
			settling.Go(func() {
				for range written {
					s.flusher.settle(k)
				}
			})
			appending.Wait()
			close(written)
			settling.Wait()
			said, _, _, err := newHistory(t, address, k).messages()
			noError(t, err)
			next := make(map[string]int)
			for _, m := range said {
				var i, n int
				if _, err := fmt.Sscanf(m.Data.Content, "%d says %d", &i, &n); err != nil {
					t.Fatal(err)
				}
				who := fmt.Sprint(i)
				if n != next[who] {
					t.Errorf("%s says %d, want %d", who, n, next[who])
				}
				next[who]++
			}
			if want := c.histories * c.messages; len(said) != want {
				t.Errorf("%d messages are there, want %d", len(said), want)
			}
		})
	}
}

// contract 5: of the callers that have all seen one state, one replaces it. While the disk syncs the first
// write, the others still see that state.
func TestOfWritersOfOneStateOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if slow.Load() && strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
				time.Sleep(time.Millisecond)
			}
			return nil
		}))
		s := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.FS = disk })
		for name, prepare := range map[string]func(k journal.ID) (header, tag string){
			"absent": func(k journal.ID) (string, string) {
				wantStatus(t, s.get("/memory/"+k.String()), http.StatusNotFound)
				return "If-None-Match", "*"
			},
			"unknown": func(journal.ID) (string, string) { return "If-None-Match", "*" },
			"pending": func(k journal.ID) (string, string) { return "If-Match", s.put(k, "v").Header().Get("ETag") },
			"settled": func(k journal.ID) (string, string) {
				s.learn(k, "v")
				return "If-Match", s.tag(k)
			},
		} {
			k := id("n", name)
			header, tag := prepare(k)
			slow.Store(true)
			var writing []<-chan int
			for i := range 8 {
				code := make(chan int, 1)
				writing = append(writing, code)
				go func() { code <- s.do(http.MethodPut, "/memory/"+k.String(), putBody(fmt.Sprint(i)), header, tag).Code }()
			}
			codes := make(map[int]int)
			for _, code := range writing {
				codes[<-code]++
			}
			slow.Store(false)
			if diff := cmp.Diff(map[int]int{http.StatusOK: 1, http.StatusPreconditionFailed: 7}, codes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		synctest.Wait()
	})
}
