package listen

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/botwired/botwired/config"
)

// ResolveTimeout limits how long the start waits for the addresses of upstream's host name.
const ResolveTimeout = 2 * time.Second

// RefuseOwnAddress fails if upstream.url leads to the daemon's own listener: the daemon would confirm
// its own writes. A name that cannot be resolved now is no error: package via finds such a loop later,
// by the daemon's own requests.
func RefuseOwnAddress(ctx context.Context, c *config.Config, listener net.Listener) error {
	own, ok := listener.Addr().(*net.TCPAddr)
	upstream, err := url.Parse(c.Upstream.URL)
	if !ok || err != nil || PortOf(upstream) != fmt.Sprint(own.Port) {
		return nil // another port, no TCP listener, or the embedded upstream
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

// PortOf returns the port of a URL, or its scheme's default port.
func PortOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Reaches reports whether a connection to address reaches a listener on listener, on a machine with
// these interfaces. A connection to 0.0.0.0 or :: goes to loopback.
func Reaches(address, listener netip.Addr, interfaces []netip.Addr) bool {
	address, listener = Plain(address), Plain(listener)
	if address.IsUnspecified() {
		address = loopbackLike(address)
	}
	if !listener.IsUnspecified() {
		return address == listener
	}
	if listener.Is4() && !address.Is4() {
		return false // 0.0.0.0 means every IPv4 address, and :: every address
	}
	return address.IsLoopback() || slices.ContainsFunc(interfaces, func(i netip.Addr) bool { return Plain(i) == address })
}

// loopbackLike returns the loopback address of the same family.
func loopbackLike(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// Plain returns the address without a zone, and an IPv4 address in IPv6 notation as IPv4.
func Plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// InterfaceAddresses returns this machine's addresses, or none if the system does not say.
func InterfaceAddresses() (list []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix.Addr())
		}
	}
	return list
}
