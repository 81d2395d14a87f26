package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/botwired/botwired/proof/load"
)

// nginxConf is nginx as a cache in front of an upstream. Nothing grows stale during a measurement,
// connections live as long as their caller wants, and nginx keeps the cache's files open. Each answer says
// whether it comes from the cache.
const nginxConf = `daemon off;
user root;
worker_processes auto;
worker_rlimit_nofile 20000;
pid nginx.pid;
error_log stderr crit;
events { worker_connections 8192; }
http {
	access_log off;
	sendfile on;
	keepalive_requests 1000000000;
	keepalive_timeout 1h;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	open_file_cache max=4000 inactive=1h;
	open_file_cache_valid 1h;
	proxy_cache_path cache keys_zone=entries:16m inactive=24h;
	server {
		listen ADDRESS backlog=4096;
		location / {
			proxy_pass http://UPSTREAM;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_cache entries;
			proxy_cache_valid 200 24h;
			proxy_ignore_headers Cache-Control Expires Vary;
			add_header X-Cache $upstream_cache_status;
		}
	}
}
`

// nginx is a cache in front of an upstream. Its files are in memory, where botwired's cache is, too.
func (l *lab) nginx(program, upstream string) command {
	return command{
		program: program,
		args: func(address, dir string) []string {
			conf := filepath.Join(dir, "nginx.conf")
			text := strings.NewReplacer("ADDRESS", address, "UPSTREAM", upstream).Replace(nginxConf)
			// If this fails nginx says that it has no configuration.
			_ = os.WriteFile(conf, []byte(text), 0o600)
			return []string{"-p", dir, "-c", conf}
		},
		probe:   httpProbe("/health"),
		far:     true,
		workers: true,
	}
}

var nginxVersion = regexp.MustCompile(`nginx/(\S+)`)

// openNginx starts nginx, if it is installed, and fills its cache.
func (s *stage) openNginx(ctx context.Context) (err error) {
	program := s.options.nginx
	if s.nginxVersion, err = versionOf(ctx, nginxVersion, program, "-v"); err != nil {
		fmt.Fprintln(os.Stderr, "nginx is left out:", err)
		return nil
	}
	if s.nginx, err = s.lab.start(ctx, s.lab.nginx(program, s.upstream.address)); err != nil {
		return err
	}
	return fill(ctx, s.nginx.address, load.HTTPAnswer, entries, s.getEach(s.nginx.address))
}

var fromCache = []byte("\r\nX-Cache: HIT\r\n")

// nginxHit is the parser of nginx's answers. It refuses those that are not from the cache.
func nginxHit(read []byte) (int, error) {
	length, err := load.HTTPAnswer(read)
	if err == nil && length > 0 && !bytes.Contains(read, fromCache) {
		err = errors.New("nginx asked upstream")
	}
	return length, err
}
