// Package dashboard serves the page at /_botwired/: assets in the binary, and their headers. The assets are
// plain files that a browser runs as they are, without a build step. Third-party files are under
// assets/vendor, with licences; assets/vendor/VENDORED names each file's release.
//
// The page holds no data. Its script reads the daemon's API and the memory API, like any other caller, and
// shows every value as text. The content security policy lets a browser run only the assets, parse no text as
// HTML, and talk to no other host.
//
// The package imports nothing of the project. Everything in it is safe for concurrent use.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Path is the page's path.
const Path = "/_botwired/"

//go:embed assets
var files embed.FS

const folder = "assets/"

const index = folder + "index.html"

// contentTypes are the content types of the assets, by extension. Other files are not served.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// headers are on every answer. A style that a script sets on an element does not count as inline for
// style-src, so uPlot and Preact need no exception.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
	// The browser revalidates each time, usually with a 304, so that it sees a new binary at once.
	"Cache-Control": "no-cache",
}

// Assets are the files of the page, by path under Path. The page itself is at "".
type Assets map[string]*Asset

// Load reads the assets.
func Load() (Assets, error) {
	assets := make(Assets)
	err := fs.WalkDir(files, strings.TrimSuffix(folder, "/"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || contentTypes[path.Ext(name)] == "" {
			return err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		assets[name] = &Asset{
			content: content, contentType: contentTypes[path.Ext(name)],
			tag: `"` + base64.RawURLEncoding.EncodeToString(digest[:18]) + `"`,
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	assets[""] = assets[index]
	delete(assets, index)
	return assets, nil
}

// Asset answers a GET or a HEAD with one file.
type Asset struct {
	content     []byte
	contentType string
	tag         string // names the content: a browser that has it gets a 304
}

func (a *Asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", a.contentType)
	h.Set("ETag", a.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}

// Opens reports whether a browser opens the page with this request: somebody has typed its address, or the
// listener's bare one, or followed a link. Requests of frames, images and scripts do not count.
func Opens(r *http.Request) bool {
	if r.Method != http.MethodGet || !only(r, "Sec-Fetch-Mode", "navigate") || !only(r, "Sec-Fetch-Dest", "document") {
		return false
	}
	return r.URL.Path == Path || r.URL.Path+"/" == Path || Leads(r)
}

// Leads reports whether to redirect a request to the page: a browser's request for the listener's bare
// address. Upstream answers that request of any other client. A browser sends no Sec-Fetch-Mode over a
// connection that is neither encrypted nor loopback's; then the Accept header decides.
func Leads(r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.Path != "/" {
		return false
	}
	mode := r.Header.Values("Sec-Fetch-Mode")
	return (len(mode) == 0 || only(r, "Sec-Fetch-Mode", "navigate")) && acceptsHTML(r)
}

func only(r *http.Request, name, value string) bool {
	return slices.Equal(r.Header.Values(name), []string{value})
}

// acceptsHTML reports whether the Accept header names text/html first, as browsers' headers do.
func acceptsHTML(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	return strings.TrimSpace(first) == "text/html"
}
