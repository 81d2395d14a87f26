"""BotWire's own clients, which check each step themselves."""
import json
import subprocess

from harness.processes import START_LIMIT, Failure, ended
from harness.stage import SERVICE


def run(report, client, stage):
    """The client works in two halves and pauses between them. Upstream is up throughout, or down from the start of
    the second half to its end; then the daemon is killed, too, while upstream is away."""
    outage = stage.case in ("outage", "killed")
    url = stage.meter.url.replace("127.0.0.1", SERVICE) if stage.case == "token" else stage.meter.url
    agent = stage.start([*client.command(), *(["outage"] if outage else [])], url, stdin=subprocess.PIPE)
    _follow(report, agent)  # the first half
    before = stage.upstream_down() if outage else None
    _proceed(agent)
    _follow(report, agent)  # the second half
    if outage:
        stage.check_outage(before)
        if stage.case == "killed":
            stage.kill_amid_outage()
        stage.upstream.up()
    stage.flush()
    _proceed(agent)
    want = _follow(report, agent)  # a last look, and what must be there
    report.check("the client ends well", ended(agent, START_LIMIT), 0)
    stage.end_daemon()
    report.compare(f"upstream's database holds the {len(want)} entries last written, and nothing else", stage.held(), want)
    held = stage.database()
    stage.end_upstream()
    report.compare("and the database is still the same", stage.database(), held)


def _follow(report, agent):
    """Reports what the client says until it pauses or ends; returns what it has stored."""
    for line in agent.stdout:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "PART":
            return None
        if word == "STORED":
            return {(ns, key): text.encode() for ns, keys in json.loads(rest).items() for key, text in keys.items()}
        report.line(line.rstrip("\n"))
    raise Failure(f"the client ended early, with exit code {ended(agent, START_LIMIT)}")


def _proceed(agent):
    agent.stdin.write("\n")
    agent.stdin.flush()
