package main

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// registry serves the npm packages of a folder on loopback, as npm's registry would: their manifests,
// and their files. It knows no other package.
type registry struct {
	url    string
	server *http.Server
}

func startRegistry(ctx context.Context, dir string) (*registry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &registry{url: "http://" + listener.Addr().String()}
	answers := make(map[string][]byte) // by path
	for _, file := range files {
		if err := r.publish(answers, file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	r.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
		content, ok := answers[asked.URL.Path]
		if !ok {
			http.NotFound(w, asked)
			return
		}
		if !strings.HasSuffix(asked.URL.Path, ".tgz") {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = w.Write(content) // npm says what it has not got
	})}
	go func() { _ = r.server.Serve(listener) }() // until close
	return r, nil
}

// publish adds the answers about a package.
func (r *registry) publish(answers map[string][]byte, file string) error {
	entries, of, err := readPackage(file)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var about map[string]any
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == "package.json" })
	if err := json.Unmarshal(entries[at].content, &about); err != nil {
		return err
	}
	path, sum := "/-/"+filepath.Base(file), sha512.Sum512(content)
	about["dist"] = map[string]string{"tarball": r.url + path, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
	document, err := json.Marshal(map[string]any{
		"name": of.Name, "dist-tags": map[string]string{"latest": of.Version}, "versions": map[string]any{of.Version: about},
	})
	answers["/"+of.Name], answers[path] = document, content
	return err
}

func (r *registry) close() error { return r.server.Close() }
