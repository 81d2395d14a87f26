package attach

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/botwired/botwired/api"
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
	for query := (url.Values{"limit": {"1000"}}); err == nil; {
		var page api.Namespaces
		_, err = c.Read(ctx, api.Request{Path: api.Surface("namespaces"), Query: query}, &page)
		for i := range page.Namespaces {
			if name := page.Namespaces[i].Namespace; conf.For(name).Sealed {
				names = append(names, name)
			}
		}
		if page.Next == nil || *page.Next <= query.Get("after") {
			break
		}
		query.Set("after", *page.Next)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
