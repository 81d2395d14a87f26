// Package dashboard is the page at /_botwired/: its assets, which the binary contains, and the
// headers that they are answered with. The assets are plain files that a browser runs as they
// are; there is no build step. Other people's files are under assets/vendor, with licences,
// and assets/vendor/VENDORED says which release each file is of.
//
// The page holds no data. Its script reads the daemon's own surface and the memory API, like any
// other caller, and shows every value as text: the policy forbids a browser to run anything that
// is not one of the assets, to parse a text as HTML, and to talk to another host.
//
// The package imports nothing of the project, and everything in it is safe for concurrent use.
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

// Path is where the page is.
const Path = "/_botwired/"

//go:embed assets
var files embed.FS

const folder = "assets/"

const index = folder + "index.html"

// contentTypes are those of the assets. A file of another kind is not served.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// headers are on every answer. A style that a script sets on an element is no inline style in the
// sense of style-src, so uPlot and Preact need no exception.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
	// A browser asks again each time, and is answered 304: a new binary is seen at once.
	"Cache-Control": "no-cache",
}

// Assets are the files of the page.
type Assets map[string]*Asset // by path under Path; the page itself is at ""

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
	tag         string // names the content: a browser that has it is answered 304
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

// Opens reports whether a request is a browser's that opens the page: a person has typed its
// address, or the listener's bare one, or has followed a link. It is never a frame's, an
// image's or a script's request.
func Opens(r *http.Request) bool {
	if r.Method != http.MethodGet || !only(r, "Sec-Fetch-Mode", "navigate") || !only(r, "Sec-Fetch-Dest", "document") {
		return false
	}
	return r.URL.Path == Path || r.URL.Path+"/" == Path || Leads(r)
}

// Leads reports whether a request is to be led to the page: a browser's for the listener's bare
// address. Any other client's request for that is upstream's to answer. A browser sends no
// Sec-Fetch-Mode over a connection that is neither encrypted nor loopback's: there, what it
// accepts has to do.
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

// acceptsHTML reports whether the Accept header names text/html first, as browsers' do.
func acceptsHTML(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	return strings.TrimSpace(first) == "text/html"
}
