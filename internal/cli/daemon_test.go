package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/proof/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// daemon is a stand-in for a running botwired. It has one answer for each "METHOD
// target", and remembers the requests.
type daemon struct {
	address string // as the setting listen
	mu      sync.Mutex
	answers map[string]answer
	asked   []asked
}

type answer struct {
	status int
	body   string
}

type asked struct {
	Target        string // method and request target, as it came
	Host          string
	Authorization string
	Body          string
}

func newDaemon(t *testing.T, answers map[string]answer) *daemon {
	t.Helper()
	d := &daemon{answers: answers}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	d.address = server.Listener.Addr().String()
	return d
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	target := r.Method + " " + r.RequestURI
	d.mu.Lock()
	d.asked = append(d.asked, asked{target, r.Host, r.Header.Get("Authorization"), string(body)})
	found, ok := d.answers[target]
	d.mu.Unlock()
	if !ok {
		found = answer{http.StatusTeapot, `{"detail":"not asked for: ` + target + `"}`}
	}
	w.Header().Set("Content-Type", "application/json")
	if found.status/100 == 3 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(found.status)
	_, _ = io.WriteString(w, found.body)
}

// closedAddress is a loopback address where nothing listens, and where the test may have
// something listen.
func closedAddress(t *testing.T) string {
	t.Helper()
	address, err := loopback.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
