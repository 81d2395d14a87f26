package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startLimit bounds how long a server may take to answer. It ends a hang: a busy machine is slow.
	startLimit = 2 * time.Minute
	// pause is between two looks at something that takes its time.
	pause = 20 * time.Millisecond
	// tailBytes bounds the part of a log that an error has.
	tailBytes = 4000
)

// Server is a NATS server in a process of its own. Its methods may be called concurrently, but only one
// at a time may start or end it.
type Server struct {
	role role
	http *http.Client

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed at the end of cmd
}

// Name is the server's name in the cluster.
func (s *Server) Name() string { return s.role.Name }

// Address is where clients connect, past all links: host and port.
func (s *Server) Address() string { return local(s.role.Client) }

// Monitor is the URL of the server's monitoring.
func (s *Server) Monitor() string { return "http://" + local(s.role.Monitor) }

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Start starts the process on the store that is there, and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	text, err := json.Marshal(s.role)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program) //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	cmd.SysProcAttr = diesWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // a kill is no success, and is wanted
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	return s.answers(ctx, exited)
}

// answers waits until the server's monitoring does, and clients can connect.
func (s *Server) answers(ctx context.Context, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		_, err := s.ask(ctx, "/varz")
		if err == nil {
			err = s.listens(ctx)
		}
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s has ended instead of starting:\n%s", s.role.Name, s.tail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not answer: %w\n%s", s.role.Name, err, s.tail()), s.Kill())
		case <-time.After(pause):
		}
	}
}

func (s *Server) listens(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address())
	if err != nil {
		return err
	}
	return conn.Close()
}

// tail is the end of the server's log.
func (s *Server) tail() string {
	text, err := os.ReadFile(s.role.Log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tailBytes):])
}

// Kill ends the process as a crash does, even one that hangs, and waits for its end. It is no error if
// the process has ended.
func (s *Server) Kill() error {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.mu.Unlock()
	if cmd == nil {
		return nil
	}
	err := cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-exited
	return err
}

// Hang stops the process without ending it: its connections stay, and nothing answers.
func (s *Server) Hang() error { return s.signal(syscall.SIGSTOP) }

// Resume lets a process go on after Hang.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(what syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("the server was never started")
	}
	return s.cmd.Process.Signal(what)
}

// Copy copies the files of a server that Kill has ended.
func (s *Server) Copy() error { return os.CopyFS(s.copied(), os.DirFS(s.role.Dir)) }

// PutBack puts what Copy has copied in place of the files of a server that Kill has ended.
func (s *Server) PutBack() error { return errors.Join(s.Wipe(), os.Rename(s.copied(), s.role.Dir)) }

func (s *Server) copied() string { return s.role.Dir + ".copy" }

// Wipe loses the disk of a server that has ended.
func (s *Server) Wipe() error { return os.RemoveAll(s.role.Dir) }

// Pid is the number of the process.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// leads reports whether the server thinks that it leads a stream. A deposed leader may think so for
// seconds.
func (s *Server) leads(ctx context.Context, stream string) bool {
	text, err := s.ask(ctx, "/jsz?streams=true")
	if err != nil {
		return false
	}
	var doc struct {
		Accounts []struct {
			Streams []struct {
				Name    string
				Cluster struct{ Leader string }
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if json.Unmarshal(text, &doc) != nil {
		return false
	}
	for _, a := range doc.Accounts {
		for _, st := range a.Streams {
			if st.Name == stream && st.Cluster.Leader == s.role.Name {
				return true
			}
		}
	}
	return false
}

// ask makes a request of the server's monitoring.
func (s *Server) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Monitor()+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP %d %s", path, response.StatusCode, strings.TrimSpace(string(text)))
	}
	return text, err
}
