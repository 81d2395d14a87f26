package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/doctor"
)

const (
	// checkLimit bounds each check of doctor; they run side by side.
	checkLimit = 15 * time.Second
	// syncLimit is how long doctor measures the disk.
	syncLimit = time.Second
	// syncPrefix begins the name of the file by which it does: one of botwired's own.
	syncPrefix = "run.doctor-"
)

func newDoctorCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: groupCare,
		Short:   "Check everything around the daemon, and say what to do",
		Long: "Check everything around the daemon, with and without one that runs: that agents of this shell go through it,\n" +
			"the configuration, the address, the data directory and its disk, the way to upstream, the clock, the quota,\n" +
			"dead letters and limits. If a daemon answers, doctor examines its data directory and its upstream, whatever this\n" +
			"shell's configuration says. Under each finding that is not well, doctor prints a command or a setting to copy.\n\n" +
			"doctor writes nothing upstream, and shows neither values nor tokens. Each check ends within 15 s, and they\n" +
			"run side by side.\n\n" +
			"The exit code is 0 if all is well, 3 if there are warnings, and 1 if a check has failed.",
		Example: "  botwired doctor\n" +
			"  botwired doctor --json | jq '.checks[] | select(.result != \"ok\")'",
		Args: noArguments,
	}
	settings.takes(cmd, slices.Concat([]string{"data_dir", "upstream.url"}, clusterSettings(), clientSettings)...)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e := newExamination(p, settings)
		if !*asJSON {
			e.reader = p.screen()
		}
		progress, clearLine := checkProgress(p)
		findings := doctor.Examine(cmd.Context(), e.checks(), checkLimit, progress)
		clearLine()
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
			return &exitStatus{code: exitError}
		case doctor.Warning:
			return &exitStatus{code: exitMissing}
		}
		return nil
	}
	return cmd
}

// checkProgress keeps a line on the terminal that says which checks are still at work.
func checkProgress(p *process) (show func(left []string), clearLine func()) {
	if !p.isTerminal(p.stderr) {
		return nil, func() {}
	}
	show = func(left []string) {
		columns, _ := p.size(p.stderr)
		p.showLine(cut(fmt.Sprintf("%s at work: %s", plural(len(left), "check"), strings.Join(left, ", ")), columns-1))
	}
	return show, func() { p.showLine("") }
}

func printFindings(p *process, findings []doctor.Finding) error {
	colours, widest := p.palette(p.stdout), 0
	counts := make(map[doctor.Result]int)
	for _, f := range findings {
		widest = max(widest, len(f.Name))
		counts[f.Result]++
	}
	for _, f := range findings {
		word, paint := resultWord(f.Result, colours)
		text := fmt.Sprintf("%s  %-*s  %s\n", paint(fmt.Sprintf("%-7s", word)), widest, f.Name, printable(f.Text))
		if f.Remedy != "" {
			text += fmt.Sprintf("%*s  -> %s\n", len("warning")+2+widest, "", printable(f.Remedy))
		}
		if _, err := fmt.Fprint(p.stdout, text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.stdout, "\n%d failed, %s, %d ok, %d not applicable\n",
		counts[doctor.Failed], plural(counts[doctor.Warning], "warning"), counts[doctor.OK], counts[doctor.NotApplicable])
	return err
}

// resultWord is a result as a line shows it, and its colour.
func resultWord(r doctor.Result, colours palette) (word string, paint func(string) string) {
	switch r {
	case doctor.Failed:
		return string(r), colours.red
	case doctor.Warning:
		return string(r), colours.yellow
	case doctor.OK:
		return string(r), colours.green
	}
	return "n/a", colours.dim
}

func printFindingsJSON(p *process, findings []doctor.Finding) error {
	return encodeJSON(p.stdout, struct {
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
	client     *client
	tokenError error

	version   string
	openFiles func() uint64
	look      func(dir string) (doctor.Volume, error)
	syncs     func(ctx context.Context, dir string) ([]time.Duration, error)
	holder    func(name string) (int, error)
	resolve   func(ctx context.Context, host string) ([]netip.Addr, error)
	now       func() time.Time
	// reader decides how a finding says a time.
	reader io.Writer

	// ask asks the daemon for its status, once for all checks.
	ask func(ctx context.Context) (*examinedStatus, error)
}

func newExamination(p *process, settings *settingFlags) *examination {
	e := &examination{
		env:     func(name string) string { return valueIn(p.environ, name) },
		version: buildVersion(), openFiles: openFilesLimit,
		look: doctor.Look,
		syncs: func(ctx context.Context, dir string) ([]time.Duration, error) {
			return doctor.Syncs(ctx, dir, syncPrefix, syncLimit)
		},
		holder: doctor.Holder, resolve: lookUp, now: time.Now, reader: io.Discard,
	}
	e.loaded, e.faults = config.Check(settings.sources(nil))
	if len(e.faults) > 0 {
		return e
	}
	e.client, e.tokenError = newClient(e.loaded)
	e.ask = onlyOnce(e.askDaemon)
	return e
}

// onlyOnce has the first caller do the work, for all of them.
func onlyOnce[T any](do func(context.Context) (T, error)) func(context.Context) (T, error) {
	var once sync.Once
	var value T
	var err error
	return func(ctx context.Context) (T, error) {
		once.Do(func() { value, err = do(ctx) })
		return value, err
	}
}

// askDaemon asks for the status of the daemon that the configuration names.
func (e *examination) askDaemon(ctx context.Context) (*examinedStatus, error) {
	if e.tokenError != nil {
		return nil, e.tokenError
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	body, err := e.client.do(ctx, request{method: http.MethodGet, path: surface("status")})
	if err != nil {
		return nil, err
	}
	if _, err := readStatus(e.client, body); err != nil {
		return nil, err
	}
	s := &examinedStatus{}
	return s, e.client.decode(body, s)
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
	ofDaemon := func(name string, judge func(*examinedStatus) doctor.Finding) doctor.Check {
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
		one("address", e.address),
		ofDaemon("version", e.sameVersion),
		ofDaemon("settings", e.sameSettings),
		ofData("process", e.otherProcess),
		one("identity", e.identity),
		ofData("data directory", e.dataDir),
		ofData("data's upstream", e.boundUpstream),
		one("token file", e.tokenFile),
		ofData("file system", e.fileSystem),
		ofData("free space", e.freeSpace),
		ofData("fsync", e.fsync),
		one("open files", e.descriptors),
		{Name: "upstream", Run: e.upstream},
		ofDaemon("upstream's state", (*examinedStatus).health),
		ofDaemon("writes", e.takesWrites),
		ofDaemon("namespaces", (*examinedStatus).waiting),
		ofDaemon("quota", e.quotas),
		ofDaemon("dead letters", (*examinedStatus).letters),
	}
}

// configuration has a finding for each mistake.
func (e *examination) configuration() []doctor.Finding {
	const name = "configuration"
	var found []doctor.Finding
	validate := "botwired config validate"
	if e.loaded.File != "" {
		validate += " " + shellWord(e.loaded.File)
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
	return []doctor.Finding{doctor.Good(name, "%s, %s from the defaults", from, plural(len(differing(e.loaded)), "difference"))}
}
