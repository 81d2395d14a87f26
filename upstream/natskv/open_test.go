package natskv_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/upstream/natskv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Open fails if waiting would not help, and says what is wrong.
func TestOpenRefusesAFileThatIsNotThere(t *testing.T) {
	e, err := natskv.Open(t.Context(), natskv.Options{
		Servers: []string{"nats://127.0.0.1:1"}, Bucket: "memory", Host: "h", Replicas: 1, History: 8,
		Timeout: time.Second, Marks: noMarks{}, Logger: slog.New(slog.DiscardHandler),
		Access: natskv.Access{Credentials: filepath.Join(t.TempDir(), "none")},
	})
	if err == nil {
		e.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// The daemon starts and ends without its upstream.
func TestAnEngineClosesWithoutServers(t *testing.T) {
	e, err := natskv.Open(t.Context(), natskv.Options{
		Servers: []string{"nats://127.0.0.1:1"}, Bucket: "memory", Host: "h", Replicas: 1, History: 8,
		Timeout: time.Hour, Marks: noMarks{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}

type noMarks struct{}

func (noMarks) Load() (m natskv.Mark, err error) { return m, nil }
func (noMarks) Save(natskv.Mark) error           { return nil }
