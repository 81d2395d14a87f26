package listen

import (
	"net/netip"
	"testing"
)

func TestReaches(t *testing.T) {
	interfaces := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("fe80::1%eth0")}
	for _, c := range []struct {
		address, listener string
		want              bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"::ffff:127.0.0.1", "127.0.0.1", true},
		{"127.0.0.2", "127.0.0.1", false},
		{"::1", "127.0.0.1", false},
		{"::1", "::1", true},
		{"0.0.0.0", "127.0.0.1", true},
		{"::", "::1", true},
		{"::", "127.0.0.1", false},
		{"192.0.2.5", "192.0.2.5", true},
		{"192.0.2.5", "127.0.0.1", false},
		{"127.0.0.2", "0.0.0.0", true},
		{"192.0.2.5", "0.0.0.0", true},
		{"192.0.2.6", "0.0.0.0", false},
		{"::1", "0.0.0.0", false},
		{"::1", "::", true},
		{"192.0.2.5", "::", true},
		{"::ffff:192.0.2.5", "::", true},
		{"fe80::1%eth0", "::", true},
		{"fe80::2", "::", false},
	} {
		if got := Reaches(netip.MustParseAddr(c.address), netip.MustParseAddr(c.listener), interfaces); got != c.want {
			t.Errorf("%s reaches a listener on %s: %t", c.address, c.listener, got)
		}
	}
}
