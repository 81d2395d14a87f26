"""The findings of a case, and the table of all cases."""
import contextlib
import sqlite3
from dataclasses import dataclass


class Report:
    """The lines of one case, and its checks."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lines = []

    def note(self, text):
        self.lines.append(text)

    def line(self, text):
        """A line of a client's, counted if it is a check."""
        self.passed += text.startswith("ok ")
        self.failed += text.startswith("not ok ")
        self.lines.append("  " + text)

    def check(self, name, got, want):
        if got == want:
            self.line(f"ok {name}")
        else:
            self.line(f"not ok {name}")
            self.line(f"    got  {got!r}\n      want {want!r}")

    def compare(self, name, got, want):
        """Compares two maps from (namespace, key) to bytes."""
        differences = [_difference(entry, got.get(entry), want.get(entry)) for entry in sorted(got.keys() | want.keys())]
        differences = [d for d in differences if d]
        self.line(f"{'not ok' if differences else 'ok'} {name}")
        for d in differences:
            self.line("    " + d)


@dataclass(frozen=True)
class Outcome:
    """The work of one client in one case."""

    report: Report
    calls: list


def _difference(entry, got, want):
    name = "/".join(entry)
    if got == want:
        return None
    if got is None:
        return f"- {name}: missing, want {_brief(want)}"
    if want is None:
        return f"+ {name}: must not be there: {_brief(got)}"
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    start = max(0, at - 20)
    return f"! {name}: differs from byte {at}: {_brief(got[start:])}, want {_brief(want[start:])}"


def _brief(value):
    return f"{value[:60]!r}" + (f"... ({len(value)} bytes)" if len(value) > 60 else "")


def database(path):
    """All that upstream holds, byte for byte."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {(namespace, key): value if kind == "text" else (kind, value) for namespace, key, kind, value in
                db.execute("SELECT namespace, key, typeof(value), CAST(value AS BLOB) FROM kv")}


COLUMNS = ["up", "outage", "killed"]  # the cases of the table


def table(clients, outcomes):
    """The table of make e2e: each client's calls and the slowest of them, in each case."""
    rows = [["client", "version", *(text for case in COLUMNS for text in (f"{case}: calls", "slowest")), "result"]]
    for client in clients:
        of_client = {case: outcome for (name, case), outcome in outcomes.items() if name == client.name}
        if of_client:
            figures = [text for case in COLUMNS for text in _figures(of_client.get(case))]
            rows.append([client.title, client.version(), *figures, _result(of_client.values())])
    return "\n".join(_aligned(rows))


def _figures(outcome):
    if outcome is None:
        return "", ""
    answered = [call.seconds for call in outcome.calls if call.answered]
    cut = len(outcome.calls) - len(answered)
    return f"{len(answered)}" + (f" + {cut} cut" if cut else ""), f"{max(answered) * 1000:.0f} ms" if answered else ""


def _result(outcomes):
    passed, failed = sum(o.report.passed for o in outcomes), sum(o.report.failed for o in outcomes)
    return f"{failed} of {passed + failed} checks failed" if failed else f"ok, {passed} checks"


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    texts = {0, 1, len(widths) - 1}  # the others are numbers
    for row in rows:
        yield "| " + " | ".join(cell.ljust(w) if i in texts else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))) + " |"
        if row is rows[0]:
            yield "|" + "|".join("-" * (w + 1) + ("-" if i in texts else ":") for i, w in enumerate(widths)) + "|"
