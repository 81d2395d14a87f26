package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// say adds a message to a conversation as BotWire's class for LangChain does: it reads the whole
// history, appends to it, and writes it back. It returns false if the message is lost.
func (w *world) say(path, message string) bool {
	history := ""
	switch r := w.node.do(http.MethodGet, path, ""); r.Code {
	case http.StatusOK:
		var doc struct{ Value string }
		if json.Unmarshal(r.Body.Bytes(), &doc) != nil {
			return false
		}
		history = doc.Value
	case http.StatusNotFound:
	default:
		return false
	}
	return w.node.do(http.MethodPut, path, `{"value":"`+history+message+`"}`).Code == http.StatusOK
}

// A conversation of 200 messages that begins in an outage loses none of them, also when the daemon
// is killed in the middle, and upstream has all of it afterwards (contract 9).
func TestAConversationThatBeginsInAnOutage(t *testing.T) {
	for _, used := range []string{"a moment ago", "by an earlier process"} {
		t.Run(used, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := newWorld(quota.Limit{}, func(with *settings) { with.lists = true })
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := w.close(); err != nil {
						t.Error(err)
					}
				}()
				if !w.say("/memory/chats/earlier", "hello;") {
					t.Fatal("a message is lost while upstream is well")
				}
				time.Sleep(2 * time.Second)
				w.up.become(condition{fault: down}, "")
				var said strings.Builder
				lost := 0
				for i := range 200 {
					if i == 100 || i == 0 && used != "a moment ago" {
						if violation := w.crash(w.clone(step{percent: 0})); violation != "" {
							t.Fatal(violation)
						}
					}
					message := fmt.Sprint(i, ";")
					said.WriteString(message)
					if !w.say("/memory/chats/new", message) {
						lost++
					}
					time.Sleep(time.Second)
				}
				if lost > 0 {
					t.Errorf("%d of 200 messages are lost", lost)
				}
				w.up.become(condition{}, "")
				time.Sleep(patience)
				id := journal.ID{Namespace: "chats", Key: "new"}
				if got := w.up.snapshot()[id]; got != said.String() {
					t.Errorf("upstream has %.100q", got)
				}
			})
		})
	}
}
