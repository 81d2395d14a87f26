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

// Open fails where waiting would not help, and says what is wrong.
func TestOpenRefusesWhatMakesNoSense(t *testing.T) {
	for says, spoil := range map[string]func(*natskv.Options){
		"no server":               func(o *natskv.Options) { o.Servers = nil },
		"is no URL":               func(o *natskv.Options) { o.Servers = []string{"nonsense"} },
		"host:4222 has cred":      func(o *natskv.Options) { o.Servers = []string{"nats://me:secret@host:4222"} },
		`"a.b" is not the name`:   func(o *natskv.Options) { o.Bucket = "a.b" },
		`"" is not the name of a`: func(o *natskv.Options) { o.Host = "" },
		"a history of 1 to 64":    func(o *natskv.Options) { o.History = 65 },
		"replicas":                func(o *natskv.Options) { o.Replicas = 0 },
		"no time is left":         func(o *natskv.Options) { o.Timeout = 0 },
		"no such file":            func(o *natskv.Options) { o.Access.Credentials = filepath.Join(t.TempDir(), "none") },
	} {
		opts := natskv.Options{
			Servers: []string{"nats://127.0.0.1:1"}, Bucket: "memory", Host: "h", Replicas: 1, History: 8,
			Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		}
		spoil(&opts)
		e, err := natskv.Open(t.Context(), opts)
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// The daemon starts without its upstream, and ends without it.
func TestAnEngineClosesWithoutServers(t *testing.T) {
	e, err := natskv.Open(t.Context(), natskv.Options{
		Servers: []string{"nats://127.0.0.1:1"}, Bucket: "memory", Host: "h", Replicas: 1, History: 8,
		Timeout: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}
