package listen

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/botwired/botwired/config"
)

// ResolveTimeout bounds how long the start waits for the addresses of upstream's name.
const ResolveTimeout = 2 * time.Second

// RefuseOwnAddress fails if upstream.url leads to the daemon's own listener: the daemon would
// confirm its own writes. The daemon notices later, by its own requests (package via), what the
// addresses do not show; so a name that cannot be resolved now is no error.
func RefuseOwnAddress(ctx context.Context, c *config.Config, listener net.Listener) error {
	own, ok := listener.Addr().(*net.TCPAddr)
	upstream, err := url.Parse(c.Upstream.URL)
	if !ok || err != nil || PortOf(upstream) != fmt.Sprint(own.Port) {
		return nil // another port, no port at all, or the embedded upstream
	}
	ctx, cancel := context.WithTimeout(ctx, ResolveTimeout)
	defer cancel()
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", upstream.Hostname())
	interfaces := InterfaceAddresses()
	for _, address := range addresses {
		if Reaches(address, own.AddrPort().Addr(), interfaces) {
			return fmt.Errorf("upstream.url = %q: at this address this daemon listens itself (listen = %q), and would confirm its own writes: "+
				"set upstream.url to the memory service, or listen at another address", c.Upstream.URL, c.Listen)
		}
	}
	return nil
}

// PortOf returns the port of a URL, which its scheme may imply.
func PortOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Reaches reports whether a connection to an address is one to a listener on another, on a
// machine with such interfaces. To connect to 0.0.0.0 or :: is to connect to loopback.
func Reaches(address, listener netip.Addr, interfaces []netip.Addr) bool {
	address, listener = Plain(address), Plain(listener)
	if address.IsUnspecified() {
		address = loopbackLike(address)
	}
	if !listener.IsUnspecified() {
		return address == listener
	}
	if listener.Is4() && !address.Is4() {
		return false // 0.0.0.0 is every IPv4 address, and :: every address
	}
	if address.IsLoopback() {
		return true
	}
	for _, i := range interfaces {
		if Plain(i) == address {
			return true
		}
	}
	return false
}

// loopbackLike returns the loopback address of the same family.
func loopbackLike(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// Plain returns the address without a zone; one of IPv4 that is written as IPv6 becomes IPv4.
func Plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// InterfaceAddresses returns the addresses of this machine; none if the system does not say.
func InterfaceAddresses() (list []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix.Addr())
		}
	}
	return list
}
