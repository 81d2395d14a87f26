package proxy

import (
	"net/http"

	"github.com/botwired/botwired/proxy/surface"
)

// observedWriter writes the answer to an observed request.
type observedWriter struct {
	http.ResponseWriter
	seen   *surface.Observation
	status int
	bytes  int
}

// Unwrap is for [http.ResponseController].
func (w *observedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *observedWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *observedWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.bytes += len(p)
	return w.ResponseWriter.Write(p)
}

// end shows the request.
func (w *observedWriter) end() {
	if w.status != 0 { // else the caller is gone
		w.seen.End(w.status, w.bytes)
	}
}
