// Package engines turns the configuration into the options of the engines upstream, BotWire's and NATS'.
package engines

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/natskv"
)

// BotWire returns the options of the engine, without its address.
func BotWire(c *config.Config) botwire.Options {
	return botwire.Options{
		Timeout: c.Upstream.Timeout, Concurrency: c.Upstream.Concurrency,
		Headers: UpstreamHeaders(c), UserAgent: "botwired/" + build.Version(),
	}
}

// UpstreamHeaders returns the headers that each request to BotWire has.
func UpstreamHeaders(c *config.Config) http.Header {
	headers := make(http.Header)
	for name, value := range c.Upstream.Headers {
		headers.Set(name, value)
	}
	return headers
}

const (
	// bucketHistory is how many versions of an entry a bucket keeps that botwired makes: enough to take
	// back what an agent has spoilt some writes ago. Each of them takes its room on every server.
	bucketHistory = 8
	// tombstonesFor is how long a delete is remembered upstream, so that an older write of a host that was
	// away does not undo it. BotWire itself drops a namespace that nobody has used for as long.
	tombstonesFor = 90 * 24 * time.Hour
)

// Cluster are the options of an engine for NATS without what only a daemon has.
func Cluster(c *config.Config, servers []string, host string, logger *slog.Logger) (natskv.Options, error) {
	n := &c.Upstream.NATS
	a, err := n.Access()
	if err != nil {
		return natskv.Options{}, err
	}
	secured, err := clusterTLS(&a, servers)
	if err == nil && a.Creds != "" {
		err = checkCredentials(a.Creds)
	}
	if err != nil {
		return natskv.Options{}, errors.New("upstream.nats.context = " + strconv.Quote(n.Context) + ": " + err.Error()) // which says all that there is to say
	}
	return natskv.Options{
		Servers: servers, Bucket: n.Bucket, Replicas: n.Replicas, History: bucketHistory, Create: n.Create,
		TLS: secured, TLSFirst: a.TLSFirst,
		Access: natskv.Access{
			User: a.User, Password: a.Password, Credentials: a.Creds, NKey: a.NKey, Token: a.Token, InboxPrefix: a.InboxPrefix,
		},
		Timeout: c.Upstream.Timeout, Host: host, Name: "botwired/" + build.Version() + " " + host,
		TombstonesFor: tombstonesFor, Logger: logger,
	}, nil
}

// userSeed begins the key of a user in a credentials file.
const userSeed = "SU"

// checkCredentials finds a file that no server would ever let in. The client reads the file itself,
// anew for each connection.
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

// clusterTLS is nil if the servers may be spoken to in the clear: they are on this machine, and
// nobody has asked for more.
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
