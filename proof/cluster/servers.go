package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/proof/loopback"
)

// Servers is a cluster of servers whose network can be cut: from server to server, and from client to
// server. Its methods may be called concurrently.
type Servers struct {
	All  []*Server
	http *http.Client

	routes map[[2]int]*Link // from a server to another one

	mu      sync.Mutex
	clients []*Client
}

// Start starts n servers, which keep their stores in dir, and waits until each answers. After an error, none
// is left.
func Start(ctx context.Context, dir string, n int) (started *Servers, err error) {
	s := &Servers{http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, routes: make(map[[2]int]*Link)}
	defer func() {
		if err != nil {
			started, err = nil, errors.Join(err, s.Close())
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for i := range n {
		one, err := s.newServer(ctx, dir, i)
		if err != nil {
			return nil, err
		}
		s.All = append(s.All, one)
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, s.each(func(one *Server) error { return one.Start(ctx) })
}

func (s *Servers) newServer(ctx context.Context, dir string, i int) (*Server, error) {
	var ports [3]int
	for j := range ports {
		address, err := loopback.FreeAddress(ctx)
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if ports[j], err = strconv.Atoi(port); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("s%d", i+1)
	return &Server{http: s.http, role: role{
		Name: name, Dir: filepath.Join(dir, name), Log: filepath.Join(dir, name+".log"),
		Client: ports[0], Route: ports[1], Monitor: ports[2],
	}}, nil
}

// connect makes the links from each server to each other one.
func (s *Servers) connect(ctx context.Context) error {
	for i, from := range s.All {
		for j, to := range s.All {
			if i == j {
				continue
			}
			link, err := NewLink(ctx, local(to.role.Route))
			if err != nil {
				return err
			}
			s.routes[[2]int{i, j}] = link
			from.role.Routes = append(from.role.Routes, "nats-route://"+link.Address())
		}
	}
	return nil
}

// each does the same to all servers at once.
func (s *Servers) each(do func(*Server) error) error {
	failed := make([]error, len(s.All))
	var work sync.WaitGroup
	for i, one := range s.All {
		work.Go(func() { failed[i] = do(one) })
	}
	work.Wait()
	return errors.Join(failed...)
}

// Kill ends all servers as a power cut of all of them does.
func (s *Servers) Kill() error { return s.each((*Server).Kill) }

// Restart starts all servers again that Kill has ended.
func (s *Servers) Restart(ctx context.Context) error {
	return s.each(func(one *Server) error { return one.Start(ctx) })
}

// Part cuts the network between the servers of the group and all others, and no client's.
func (s *Servers) Part(group ...int) {
	for pair, link := range s.routes {
		if slices.Contains(group, pair[0]) != slices.Contains(group, pair[1]) {
			link.Cut()
		}
	}
}

// Heal joins what Part has cut, between all servers.
func (s *Servers) Heal() {
	for _, link := range s.routes {
		link.Join()
	}
}

// Leader returns the number of the server that leads a stream, once there is one. A server that cannot
// reach the others may think that it still leads.
func (s *Servers) Leader(ctx context.Context, stream string) (int, error) {
	for {
		for i, one := range s.All {
			if one.leads(ctx, stream) {
				return i, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("nobody leads %s: %w", stream, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// Healthy waits until each server says that it is: it knows who leads, and its copies of all streams have caught
// up. A cluster that loses a second disk before that may lose what it has acknowledged.
func (s *Servers) Healthy(ctx context.Context) error {
	return s.each(func(one *Server) error {
		for {
			_, err := one.ask(ctx, "/healthz")
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not healthy: %w", one.Name(), err)
			case <-time.After(pause):
			}
		}
	})
}

// Close ends all servers and links, and leaves the stores.
func (s *Servers) Close() error {
	err := s.Kill()
	for _, link := range s.routes {
		err = errors.Join(err, link.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		err = errors.Join(err, c.close())
	}
	s.http.CloseIdleConnections()
	return err
}

// Client is the network of one client: a link of its own to each server.
type Client struct{ links []*Link }

// NewClient makes the network of a client.
func (s *Servers) NewClient(ctx context.Context) (*Client, error) {
	c := new(Client)
	s.mu.Lock()
	s.clients = append(s.clients, c)
	s.mu.Unlock()
	for _, one := range s.All {
		link, err := NewLink(ctx, one.Address())
		if err != nil {
			return nil, err
		}
		c.links = append(c.links, link)
	}
	return c, nil
}

// URL names all servers, as the client reaches them.
func (c *Client) URL() string {
	addresses := make([]string, len(c.links))
	for i, link := range c.links {
		addresses[i] = link.Address()
	}
	return "nats://" + strings.Join(addresses, ",")
}

// Part cuts the client from the servers; from all of them if none is named.
func (c *Client) Part(servers ...int) {
	for i, link := range c.links {
		if len(servers) == 0 || slices.Contains(servers, i) {
			link.Cut()
		}
	}
}

// Heal joins what Part has cut.
func (c *Client) Heal() {
	for _, link := range c.links {
		link.Join()
	}
}

func (c *Client) close() (err error) {
	for _, link := range c.links {
		err = errors.Join(err, link.Close())
	}
	return err
}
