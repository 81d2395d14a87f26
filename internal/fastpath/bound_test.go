package fastpath_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
)

// ended reports whether the server has closed a connection.
func ended(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// At the bound, a newcomer replaces the connection that has been idle for longest, whoever serves it. It
// never replaces one with a request in flight.
func TestTheIdlestGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = time.Minute / 2
		w := startWith(t, func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "slow") {
				time.Sleep(takes)
			}
			echo(rw, r)
		}, func(o *fastpath.Options) { o.MaxConns = 5 })
		quick, slow := request("GET", "/memory/quick/k", ""), request("GET", "/memory/slow/k", "")
		var order []net.Conn // idlest first
		busy, handed, lent, fresh, used := w.dial(t), w.dial(t), w.dial(t), w.dial(t), w.dial(t)
		if _, err := io.WriteString(busy, slow); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		for _, c := range []struct {
			net.Conn
			text string
		}{{handed, chunked}, {lent, request("GET", "/other", "")}, {used, quick}} {
			exchange(t, c, c.text, 1)
			time.Sleep(time.Second)
		}
		order = append(order, fresh, handed, lent, used)
		for i, idlest := range order {
			newcomer := w.dial(t)
			exchange(t, newcomer, quick, 1)
			if !ended(idlest) {
				t.Errorf("connection %d, the idlest, is still there", i)
			}
			for j, other := range order[i+1:] {
				if ended(other) {
					t.Errorf("connection %d gave way before %d", i+1+j, i)
				}
			}
			time.Sleep(time.Second)
		}
		_ = busy.SetReadDeadline(time.Time{})
		if got := exchange(t, busy, "", 1)[0]; !strings.Contains(got, "200 ") {
			t.Errorf("what was under way is answered with %s", got)
		}
	})
}

// While every connection has a request in flight, a newcomer waits until one of them is answered.
func TestNewcomersWaitForTheBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 10 * time.Second
		w := startWith(t, func(rw http.ResponseWriter, r *http.Request) { time.Sleep(takes); echo(rw, r) },
			func(o *fastpath.Options) { o.MaxConns = 2 })
		began := time.Now()
		busy := []net.Conn{w.dial(t), w.dial(t)}
		var answered sync.WaitGroup
		for _, c := range busy {
			answered.Go(func() {
				if got := exchange(t, c, request("GET", "/memory/slow/k", ""), 1)[0]; !strings.Contains(got, "200 ") {
					t.Errorf("what was under way is answered with %s", got)
				}
			})
		}
		synctest.Wait()
		exchange(t, w.dial(t), request("GET", "/memory/quick/k", ""), 1)
		if took := time.Since(began); took != takes {
			t.Errorf("the newcomer was answered after %s", took)
		}
		answered.Wait()
		gone := 0
		for _, c := range busy {
			if ended(c) {
				gone++
			}
		}
		if gone != 1 {
			t.Errorf("%d connections gave way to one newcomer", gone)
		}
	})
}
