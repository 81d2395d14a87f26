package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// roleVariable has the role of a process that this package has started from its own program.
const roleVariable = "BOTWIRED_TEST_SERVER"

// role is what a server's process is told.
type role struct {
	Name    string   `json:"name"`
	Dir     string   `json:"dir"`     // its store
	Log     string   `json:"log"`     // its log file
	Client  int      `json:"client"`  // ports, on loopback
	Route   int      `json:"route"`   // where other servers come in
	Monitor int      `json:"monitor"` // HTTP
	Routes  []string `json:"routes"`  // URLs of the other servers
}

// ServeIfAsked makes this process one of the servers that [Start] has started, and does not return then.
// Otherwise it returns at once. A program that calls Start calls it first of all.
func ServeIfAsked() {
	text, asked := os.LookupEnv(roleVariable)
	if !asked {
		return
	}
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		complain(err)
	}
	complain(r.serve())
}

// complain ends this process, as a success if there is no error.
func complain(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serve returns when somebody has shut the server down.
func (r role) serve() error {
	opts, err := r.options()
	if err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the server takes no connections")
	}
	s.WaitForShutdown()
	return nil
}

const (
	// routePing and routePings bound how long a route counts as alive that passes nothing on.
	routePing  = time.Second
	routePings = 2
	// storeLimit bounds a server's files, in bytes.
	storeLimit = 4 << 30
	// nowhere is an address on which nobody listens: servers must reach each other by the links alone.
	nowhere = "127.0.0.1:1"
)

func (r role) options() (*server.Options, error) {
	var routes []*url.URL
	for _, text := range r.Routes {
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		routes = append(routes, u)
	}
	return &server.Options{
		ServerName: r.Name, Host: "127.0.0.1", Port: r.Client, HTTPHost: "127.0.0.1", HTTPPort: r.Monitor,
		LogFile: r.Log, Logtime: true, LogtimeUTC: true,
		JetStream: true, JetStreamMaxStore: storeLimit, StoreDir: r.Dir,
		// An acknowledged write is on the disk. The default syncs every two minutes.
		SyncAlways: true, SyncInterval: 2 * time.Minute,
		PingInterval: 2 * time.Second, MaxPingsOut: 2,
		Cluster: server.ClusterOpts{
			Name: "botwired", Host: "127.0.0.1", Port: r.Route,
			NoAdvertise: true, Advertise: nowhere, PoolSize: -1,
			PingInterval: routePing, MaxPingsOut: routePings,
		},
		Routes: routes,
	}, nil
}
