package cli

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
)

const (
	// completionTime is how long a shell waits for names: the user has just pressed a key.
	completionTime = time.Second
	completedNames = "200"
)

// completeNames makes all commands complete the namespaces and keys that the daemon knows: in the
// places of NAMESPACE and KEY in the usage line, and for --namespace.
func (f *Settings) completeNames(root *cobra.Command) {
	EachCommand(root, func(cmd *cobra.Command) {
		if places := placesOf(cmd.Use); len(places) > 0 && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = f.complete(places)
		}
		if cmd.Flags().Lookup("namespace") != nil {
			_ = cmd.RegisterFlagCompletionFunc("namespace", f.complete([]string{"NAMESPACE"})) // fails only without such a flag
		}
	})
}

// placesOf returns the leading arguments of a usage line that are names of namespaces or keys.
func placesOf(use string) (places []string) {
	for _, word := range strings.Fields(use)[1:] {
		word = strings.Trim(word, "[]")
		switch word {
		case "NAMESPACE", "KEY":
			places = append(places, word)
		case "NAMESPACE...":
			return append(places, word)
		default:
			return places
		}
	}
	return places
}

// complete offers names for the argument after args. Without a daemon it offers none.
func (f *Settings) complete(places []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		at := len(args)
		if last := len(places) - 1; strings.HasSuffix(places[last], "...") {
			at = min(at, last)
		}
		if at >= len(places) {
			return nil, cobra.ShellCompDirectiveDefault // files, for example
		}
		names, err := f.names(cmd.Context(), places[at], args, begun)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (f *Settings) names(ctx context.Context, place string, args []string, begun string) (names []string, err error) {
	c, err := f.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	r := api.Request{Path: api.Surface("namespaces"), Query: url.Values{"limit": {completedNames}}}
	if place == "KEY" {
		r.Path = api.Surface("entries")
		r.Query.Set("namespace", args[len(args)-1])
		r.Query.Set("prefix", begun)
		var known api.Entries
		if _, err := c.Read(ctx, r, &known); err != nil {
			return nil, err
		}
		for i := range known.Entries {
			names = append(names, known.Entries[i].Key)
		}
	} else {
		r.Query.Set("match", begun)
		var known api.Namespaces
		if _, err := c.Read(ctx, r, &known); err != nil {
			return nil, err
		}
		for i := range known.Namespaces {
			names = append(names, known.Namespaces[i].Namespace)
		}
	}
	offered := names[:0]
	for _, name := range names {
		if strings.HasPrefix(name, begun) {
			offered = append(offered, term.Printable(name))
		}
	}
	return offered, nil
}
