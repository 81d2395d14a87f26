package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/proof/loopback"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var configBlock = regexp.MustCompile("(?s)```text\n(# nats-server.conf\n.*?)```")

// The configuration in docs/scale.md makes three servers a cluster that syncs each write, takes nobody without
// TLS and a password, and keeps a bucket on all three. Names, ports and folders are the test's own.
func TestTheServersOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../docs/scale.md"))
	noError(t, err)
	block := configBlock.FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/scale.md has no nats-server.conf")
	}
	dir := t.TempDir()
	certify(t, dir)
	t.Setenv("NATS_PASSWORD", "not-so-secret")
	var routes [3]string
	for i := range routes {
		routes[i] = freeAddress(t)
	}
	var urls []string
	for i := range routes {
		t.Setenv("NATS_NAME", fmt.Sprint("nats-", i+1))
		address := freeAddress(t)
		text := strings.NewReplacer(
			"0.0.0.0:4222", address, "127.0.0.1:8222", freeAddress(t), "0.0.0.0:6222", routes[i],
			"nats-1:6222", routes[0], "nats-2:6222", routes[1], "nats-3:6222", routes[2],
			"/etc/nats/", dir+"/", "/var/lib/nats", filepath.Join(dir, fmt.Sprint("store", i)),
		).Replace(string(block[1]))
		urls = append(urls, "tls://"+address)
		serveFile(t, filepath.Join(dir, fmt.Sprint(i, ".conf")), text)
	}

	everyServer := strings.Join(urls, ",")
	authority := nats.RootCAs(filepath.Join(dir, "ca.pem"))
	if conn, err := nats.Connect(everyServer, authority); err == nil {
		conn.Close()
		t.Error("the servers take a client without a password")
	}
	conn, err := nats.Connect(everyServer, authority, nats.UserInfo("botwired", "not-so-secret"))
	noError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	noError(t, err)
	wantBucket(t, js)
}

// wantBucket makes a stream on three servers, once they have agreed on who leads them.
func wantBucket(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		try, end := context.WithTimeout(ctx, time.Second) // nobody answers while there is no leader
		_, err := js.CreateStream(try, jetstream.StreamConfig{Name: "KV_botwire", Subjects: []string{"$KV.botwire.>"}, Storage: jetstream.FileStorage, Replicas: 3})
		end()
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("no bucket on three servers: ", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	_, err := js.Publish(ctx, "$KV.botwire.ns.key", []byte("value"))
	noError(t, err)
}

// serveFile runs a server until the test ends.
func serveFile(t *testing.T, path, text string) {
	t.Helper()
	noError(t, os.WriteFile(path, []byte(text), 0o600))
	opts, err := server.ProcessConfigFile(path)
	noError(t, err)
	if !opts.SyncAlways || !opts.JetStream || opts.TLSConfig == nil || opts.Cluster.TLSConfig == nil {
		t.Errorf("sync always %t, JetStream %t, TLS %t, between servers %t", opts.SyncAlways, opts.JetStream, opts.TLSConfig != nil, opts.Cluster.TLSConfig != nil)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	noError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server takes no connections")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := loopback.FreeAddress(t.Context())
	noError(t, err)
	return address
}

// certify makes an authority, and a certificate of servers on loopback.
func certify(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "servers"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	noError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	noError(t, err)
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: certificate}, "server.pem": {Type: "CERTIFICATE", Bytes: certificate},
		"server.key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		noError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
