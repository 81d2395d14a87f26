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
		names = append(names, o.Match)
	}
	known, err := c.Namespaces(ctx)
	for i := range known {
		names = append(names, known[i].Namespace)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return strings.ContainsAny(name, `*?[\`) || !conf.For(name).Sealed
	}), err
}
