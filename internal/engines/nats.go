package engines

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/upstream/natskv"
)

const (
	// bucketHistory is the number of versions of an entry that a bucket made by botwired keeps: enough
	// to undo what an agent has spoilt some writes ago. Each version takes space on every server.
	bucketHistory = 8
	// tombstonesFor is how long upstream keeps a tombstone, so that an older write of a host that was
	// away does not undo the delete. BotWire itself drops a namespace that was unused for as long.
	tombstonesFor = 90 * 24 * time.Hour
	// clusterTimeout limits one attempt of a daemon, even if upstream.timeout is longer. A leader that
	// dies during a request leaves it unanswered, and the servers soon elect another. The daemon retries
	// by itself.
	clusterTimeout = 5 * time.Second
)

// openNATS opens the bucket that holds the memory.
func openNATS(ctx context.Context, c *config.Config, o Options) (Opened, error) {
	opts, err := Cluster(c, o.host.name, clusterTimeout, o.Logger)
	if err != nil {
		return Opened{}, err
	}
	opts.Earlier = o.host.earlier
	opts.Renew = func() (natskv.Access, error) {
		a, err := c.Upstream.NATS.Access()
		return accessOf(&a), err
	}
	seen, err := o.Journal.Seen()
	if err != nil {
		return Opened{}, err
	}
	opts.Marks = journaledMarks{fileMarks{filepath.Join(c.DataDir, markFile)}, seen}
	engine, err := natskv.Open(ctx, opts)
	if err != nil {
		return Opened{}, err
	}
	return Opened{
		Backend: engine.Backend(),
		Forward: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // a bucket has no other resources
			wire.Detail(http.StatusNotFound, "Not Found").Write(w)
		}),
		Configure: func(*config.Config) {}, // it has no headers
		Seen: func() []byte {
			seen, _ := json.Marshal(engine.Seen()) // Save reports a mark that cannot be encoded
			return seen
		},
		Close: func() error { engine.Close(); return nil },
	}, nil
}

// Cluster returns the options of a NATS engine. Its Marks load what the daemon of the data directory has saved, and save
// nothing. longest limits upstream.timeout.
func Cluster(c *config.Config, host string, longest time.Duration, logger *slog.Logger) (natskv.Options, error) {
	n, servers := &c.Upstream.NATS, c.Upstream.Servers()
	a, err := n.Access()
	if err != nil {
		return natskv.Options{}, err
	}
	secured, err := clusterTLS(&a, servers)
	if err == nil && a.Creds != "" {
		err = checkCredentials(a.Creds)
	}
	if err != nil {
		return natskv.Options{}, errors.New("upstream.nats.context = " + strconv.Quote(n.Context) + ": " + err.Error()) // the text is complete
	}
	return natskv.Options{
		Servers: servers, Bucket: n.Bucket, Replicas: n.Replicas, History: bucketHistory, Create: n.Create,
		TLS: secured, TLSFirst: a.TLSFirst,
		Access:  accessOf(&a),
		Timeout: min(c.Upstream.Timeout, longest), Host: host, Name: "botwired/" + build.Version() + " " + host,
		TombstonesFor: tombstonesFor, Marks: savedMarks{fileMarks{filepath.Join(c.DataDir, markFile)}}, Logger: logger,
	}, nil
}

func accessOf(a *config.Access) natskv.Access {
	return natskv.Access{
		User: a.User, Password: a.Password, Credentials: a.Creds, NKey: a.NKey, Token: a.Token, InboxPrefix: a.InboxPrefix,
	}
}

// userSeed is the prefix of a user's key in a credentials file.
const userSeed = "SU"

// checkCredentials rejects a file that no server would ever accept. The client itself reads the file
// again for each connection.
func checkCredentials(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("creds: %w", words.Unusable(err))
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte(userSeed)) {
			return nil
		}
	}
	return fmt.Errorf("creds = %q: expected NATS credentials, a user's JWT and its key, and there is no key in it", name)
}

// clusterTLS returns nil if plain text is allowed: the servers are on this machine, and no setting asks
// for TLS.
func clusterTLS(a *config.Access, servers []string) (*tls.Config, error) {
	if !config.DemandsTLS(servers) && a.CA == "" && a.Cert == "" && !a.TLSFirst {
		return nil, nil
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		authorities, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", words.Unusable(err))
		}
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("ca = %q: expected certificates in PEM, and there is none in it", a.CA)
		}
	}
	if a.Cert != "" {
		own, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fmt.Errorf("cert = %q and key = %q: expected a certificate and its key in PEM: %w", a.Cert, a.Key, words.Unusable(err))
		}
		secured.Certificates = []tls.Certificate{own}
	}
	return secured, nil
}
