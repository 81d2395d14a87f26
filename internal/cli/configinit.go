package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// configFileMode keeps other users out: a configuration file may hold headers with secrets.
const configFileMode = 0o600

func newConfigInitCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration file with every setting, commented out",
		Long: "Write a configuration file with every setting, commented out: its meaning, its default and the values\n" +
			"that it takes. Without FILE, or with -, init prints it. init replaces no file, unless you say --force.",
		Example: "  botwired config init ~/.config/botwired/config.yaml\n" +
			"  botwired config init | less",
		Args: arguments(0, 1),
	}
	settings.takesNone(cmd)
	force := cmd.Flags().Bool("force", false, "replace the file if it exists")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		sample := config.Sample(p.Environ)
		if len(args) == 0 || args[0] == "-" {
			_, err := io.WriteString(p.Stdout, sample)
			return err
		}
		return writeSample(p, args[0], sample, *force)
	}
	return cmd
}

func writeSample(p *Program, name, sample string, force bool) error {
	name, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	if err := writeNew(name, sample, force); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists: --force replaces it, and another FILE leaves it", name)
		}
		return words.Unusable(err)
	}
	use := "every command reads it from there"
	if name != config.DefaultFile(p.Environ) {
		use = fmt.Sprintf("export %s=%s", config.EnvFile, attach.ShellWord(name))
	}
	return term.Facts(p.Stdout, [][2]string{
		{"written", name},
		{"use", use},
		{"check", "botwired config validate " + attach.ShellWord(name)},
	})
}

// writeNew writes a file, and creates its folder if necessary. Unless replace is set, it fails if the
// file exists.
func writeNew(name, content string, replace bool) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !replace {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(name, flags, configFileMode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	return errors.Join(err, f.Close())
}
