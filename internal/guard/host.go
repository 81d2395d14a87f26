package guard

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// hostPort is a Host header or the authority of an origin. The name is in lower case, without brackets and
// trailing dot. The port is empty if not given.
type hostPort struct{ name, port string }

func splitHost(s string) (hostPort, bool) {
	name, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		name, port = s[:i], s[i+1:]
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return hostPort{}, false
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() {
			return hostPort{}, false
		}
		return hostPort{addr.String(), port}, true
	}
	name = normalName(name)
	return hostPort{name, port}, name != "" && !strings.ContainsAny(name, ":/@?#[]\\ ")
}

func normalName(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

type hosts struct {
	any      bool
	names    map[string]bool
	hostname string // this machine's hostname, accepted off loopback
	extra    string // the configured names, as error messages list them
}

func newHosts(extra []string, hostname string, any bool) hosts {
	h := hosts{any: any, names: map[string]bool{"localhost": true}, hostname: normalName(hostname)}
	var list []string
	for _, name := range extra {
		name = normalName(strings.Trim(name, "[]"))
		if addr, err := netip.ParseAddr(name); err == nil {
			name = addr.String()
		}
		if name != "" && !h.names[name] {
			h.names[name] = true
			list = append(list, name)
		}
	}
	if len(list) > 0 {
		h.extra = " (" + strings.Join(list, ", ") + ")"
	}
	return h
}

// accept reports whether a name is one of the listener's on this connection. It refuses the hostname on
// loopback: whoever controls that name on the network could point it first at a page of theirs and then here.
func (h hosts) accept(name string, r *http.Request) bool {
	if h.any || h.names[name] {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return name == h.hostname && fromElsewhere(r)
	}
	addr = addr.Unmap().WithZone("")
	return addr.IsLoopback() || addr == arrivedOn(r)
}

// arrivedOn returns the address that the connection was made to, if it is an IP address.
func arrivedOn(r *http.Request) netip.Addr {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// fromElsewhere reports whether the connection was made to an address off loopback.
func fromElsewhere(r *http.Request) bool {
	addr := arrivedOn(r)
	return addr.IsValid() && !addr.IsLoopback()
}

// reason says why a request is refused. It is empty for an accepted one.
type reason string

// unknownHost returns the reason for refusing a Host. It lists the names that accept allows on this
// connection.
func (h hosts) unknownHost(r *http.Request) reason {
	own := "the address that the caller connected to"
	if fromElsewhere(r) {
		own += fmt.Sprintf(" (%s), this machine's name (%s)", arrivedOn(r), cmp.Or(h.hostname, "none"))
	}
	return reason(fmt.Sprintf("This Host is not one of this listener's names. Accepted are localhost, loopback addresses, %s, "+
		"and the names in the setting allowed_hosts%s.", own, h.extra))
}
