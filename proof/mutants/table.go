package main

import (
	"fmt"
	"os"
	"strings"
)

// The table stands between these lines of docs/contract.md.
const (
	tableBegins = "<!-- mutants -->\n"
	tableEnds   = "<!-- /mutants -->\n"
)

// writeTable puts the rows in the place of those that the page has.
func writeTable(page string, list []mutant, results []result) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table, between %q and %q", page, tableBegins, tableEnds)
	}
	var b strings.Builder
	b.WriteString("| point | guard taken out | in | test that failed |\n|---|---|---|---|\n")
	for i, m := range list {
		b.WriteString(m.row(results[i].failed) + "\n")
	}
	return os.WriteFile(page, []byte(before+tableBegins+b.String()+tableEnds+after), 0o600)
}

// row names the subtest too if the row names one.
func (m *mutant) row(failed string) string {
	if !strings.Contains(m.test.pattern, "/") {
		failed, _, _ = strings.Cut(failed, "/")
	}
	return fmt.Sprintf("%s `%s` |", m.head(), failed)
}

// head is a row of the table as far as the list has it.
func (m *mutant) head() string {
	return fmt.Sprintf("| %d | %s | `%s` | `%s`", m.point, m.guard, m.edits[0].file, m.pkg())
}

// pkg is the folder of the first tests that the row runs.
func (m *mutant) pkg() string { return strings.TrimPrefix(m.test.packages[0], "./") }
