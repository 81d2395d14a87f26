package natskv_test

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
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

// A server on loopback names one on another machine and ends. Without TLS, that one gets neither a
// password nor a value.
func TestNoPlainConnectionToAnotherMachine(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer listener.Close()
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, `INFO {"server_id":"A","proto":1,"headers":true,"max_payload":1048576,"connect_urls":["192.0.2.1:4222"]}`, "\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if lines.Text() == "PING" {
				fmt.Fprint(conn, "PONG\r\n")
				return
			}
		}
	}()
	e, err := natskv.Open(t.Context(), natskv.Options{
		Servers: []string{"nats://" + listener.Addr().String()}, Bucket: "memory", Host: "h", Replicas: 1, History: 8,
		Timeout: 50 * time.Millisecond, Marks: noMarks{}, Logger: slog.New(slog.DiscardHandler), Access: natskv.Access{User: "u", Password: "p"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for {
		_, err := e.Get(t.Context(), journal.ID{Namespace: "ns", Key: "k"})
		var failed *upstream.Error
		if !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if strings.Contains(failed.Reason, "192.0.2.1") {
			if !strings.Contains(failed.Reason, "over TLS only") {
				t.Errorf("it was dialled: %s", failed.Reason)
			}
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(failed.Reason)
		case <-time.After(time.Millisecond):
		}
	}
}

type noMarks struct{}

func (noMarks) Load() (m natskv.Mark, err error) { return m, nil }
func (noMarks) Save(natskv.Mark) error           { return nil }
