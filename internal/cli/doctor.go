package cli

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/doctor"
	"github.com/botwired/botwired/internal/words"
)

// checkLimit bounds each check of doctor; they run side by side.
const checkLimit = 15 * time.Second

func newDoctorCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: GroupCare,
		Short:   "Check everything around the daemon, and say what to do",
		Long: "Check everything around the daemon, with and without one that runs: that agents of this shell go through it,\n" +
			"the configuration, the address, the data directory and its disk, the way to upstream, the clock, the quota.\n" +
			"If a daemon answers, doctor examines its data directory and its upstream, whatever this shell's configuration\n" +
			"says. Under each finding that is not well, doctor prints a command or a setting to copy.\n\n" +
			"doctor writes nothing upstream, and shows neither values nor tokens. Each check ends within 15 s, and they\n" +
			"run side by side.\n\n" +
			"The exit code is 0 if all is well, 3 if there are warnings, and 1 if a check has failed.",
		Example: "  botwired doctor\n" +
			"  botwired doctor --json | jq '.checks[] | select(.result != \"ok\")'",
		Args: NoArguments,
	}
	settings.Takes(cmd, slices.Concat([]string{"data_dir", "upstream.url"}, clusterSettings(), ClientSettings)...)
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e := newExamination(p, settings)
		if !*asJSON {
			e.reader = p.Screen()
		}
		findings := doctor.Examine(cmd.Context(), e.checks(), checkLimit)
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		show := printFindings
		if *asJSON {
			show = printFindingsJSON
		}
		if err := show(p, findings); err != nil {
			return err
		}
		switch doctor.Worst(findings) {
		case doctor.Failed:
			return &term.Exit{Code: ExitError}
		case doctor.Warning:
			return &term.Exit{Code: ExitMissing}
		}
		return nil
	}
	return cmd
}

func printFindings(p *Program, findings []doctor.Finding) error {
	colours, widest := p.PaletteOf(p.Stdout), 0
	paint := map[doctor.Result]func(string) string{
		doctor.Failed: colours.Red, doctor.Warning: colours.Yellow, doctor.OK: colours.Green, doctor.NotApplicable: colours.Dim,
	}
	counts := make(map[doctor.Result]int)
	for _, f := range findings {
		widest = max(widest, len(f.Name))
		counts[f.Result]++
	}
	for _, f := range findings {
		word := strings.Replace(string(f.Result), "not applicable", "n/a", 1)
		text := fmt.Sprintf("%s  %-*s  %s\n", paint[f.Result](fmt.Sprintf("%-7s", word)), widest, f.Name, term.Printable(f.Text))
		if f.Remedy != "" {
			text += fmt.Sprintf("%*s  -> %s\n", len("warning")+2+widest, "", term.Printable(f.Remedy))
		}
		if _, err := fmt.Fprint(p.Stdout, text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.Stdout, "\n%d failed, %s, %d ok, %d not applicable\n",
		counts[doctor.Failed], words.Plural(counts[doctor.Warning], "warning"), counts[doctor.OK], counts[doctor.NotApplicable])
	return err
}

func printFindingsJSON(p *Program, findings []doctor.Finding) error {
	return term.EncodeJSON(p.Stdout, struct {
		Result doctor.Result    `json:"result"`
		Checks []doctor.Finding `json:"checks"`
	}{doctor.Worst(findings), findings})
}

// examination is what doctor goes by. Its functions reach the outside world.
type examination struct {
	loaded *config.Loaded
	faults []*config.Error
	env    func(name string) string
	// client asks the daemon. It is nil if the token cannot be read, and tokenError says why.
	client     *attach.Client
	tokenError error

	version string
	look    func(dir string) (doctor.Volume, error)
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	now     func() time.Time
	// reader decides how a finding says a time.
	reader io.Writer

	// ask asks the daemon for its status, once for all checks.
	ask func(ctx context.Context) (*api.Status, error)
}

func newExamination(p *Program, settings *Settings) *examination {
	e := &examination{
		env:     func(name string) string { return term.ValueIn(p.Environ, name) },
		version: build.Version(), look: doctor.Look,
		resolve: lookUp, now: time.Now, reader: io.Discard,
	}
	e.loaded, e.faults = config.Check(settings.sources(nil))
	if len(e.faults) > 0 {
		return e
	}
	e.client, e.tokenError = attach.Connect(e.loaded, e.version)
	e.ask = onlyOnce(e.askDaemon)
	return e
}

// checks are all checks, in the order in which doctor shows what they find.
func (e *examination) checks() []doctor.Check {
	if faults := e.configuration(); doctor.Worst(faults) == doctor.Failed {
		return []doctor.Check{{Name: "configuration", Run: func(context.Context) []doctor.Finding {
			return append(faults, doctor.None("the rest", "the other checks go by the configuration"))
		}}}
	}
	one := func(name string, check func(context.Context) doctor.Finding) doctor.Check {
		return doctor.Check{Name: name, Run: func(ctx context.Context) []doctor.Finding { return []doctor.Finding{check(ctx)} }}
	}
	ofData := func(name string, check func(context.Context, *config.Config) doctor.Finding) doctor.Check {
		return one(name, func(ctx context.Context) doctor.Finding {
			c, answers := e.examined(ctx)
			if answers {
				if why := outOfReach(c.DataDir); why != "" {
					return doctor.None(name, "%s", why)
				}
			}
			return check(ctx, c)
		})
	}
	ofDaemon := func(name string, judge func(*api.Status) doctor.Finding) doctor.Check {
		return one(name, func(ctx context.Context) doctor.Finding {
			s, err := e.ask(ctx)
			if err != nil {
				return doctor.None(name, "no daemon answers this command")
			}
			return judge(s)
		})
	}
	return []doctor.Check{
		one("BOTWIRE_URL", e.agentURL),
		one("proxy", e.agentProxy),
		ofDaemon("callers", e.callers),
		{Name: "configuration", Run: func(context.Context) []doctor.Finding { return e.configuration() }},
		one("daemon", e.daemon),
		ofDaemon("settings", e.sameSettings),
		ofDaemon("status", summarized),
		ofDaemon("quota", e.quotas),
		one("token file", e.tokenFile),
		ofData("data directory", e.dataDir),
		ofData("disk", e.disk),
		{Name: "upstream", Run: e.upstream},
	}
}

// configuration has a finding for each mistake.
func (e *examination) configuration() []doctor.Finding {
	const name = "configuration"
	var found []doctor.Finding
	validate := "botwired config validate"
	if e.loaded.File != "" {
		validate += " " + ShellWord(e.loaded.File)
	}
	for _, fault := range e.faults {
		found = append(found, doctor.Fail(name, validate, "%s", fault))
	}
	if len(found) > 0 {
		return found
	}
	if err := e.loaded.RequireDataDir(); err != nil {
		return []doctor.Finding{doctor.Fail(name, "export BOTWIRED_DATA_DIR=/var/lib/botwired", "%s", err)}
	}
	from := e.loaded.File
	if from == "" {
		from = "no file"
	}
	return []doctor.Finding{doctor.Good(name, "%s, %s from the defaults", from, words.Plural(len(differing(e.loaded)), "difference"))}
}
