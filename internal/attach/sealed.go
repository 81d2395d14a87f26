package attach

import (
	"context"
	"slices"
	"strings"

	"github.com/botwired/botwired/config"
)

// SealedNamespaces returns, in order, the sealed namespaces that the daemon knows, and those that an entry of the
// configuration names without a pattern. After an error it returns the latter.
func (c *Client) SealedNamespaces(ctx context.Context, conf *config.Config) (names []string, err error) {
	for _, o := range conf.Namespaces {
		if !strings.ContainsAny(o.Match, `*?[\`) && conf.For(o.Match).Sealed {
			names = append(names, o.Match)
		}
	}
	known, err := c.Namespaces(ctx)
	for i := range known {
		if name := known[i].Namespace; conf.For(name).Sealed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
