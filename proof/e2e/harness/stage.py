"""The servers of one case: an upstream, a daemon in front of it, and a meter between the daemon and the client."""
import json
import signal
import subprocess
import time
import urllib.error

from harness import BINARY
from harness.meter import Meter
from harness.processes import START_LIMIT, Failure, Server, environment, request, spawn, stop
from harness.report import database

# Short, so that the outage reaches what lasts longer than caches and pauses do.
SETTINGS = [
    "--upstream-late-window", "2s", "--upstream-timeout", "2s",
    "--cache-fresh-for", "200ms", "--cache-stale-while-revalidate", "200ms",
]
# Frameworks that would report to their makers, and output as it comes.
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true", "LANGSMITH_TRACING": "false",
         "OPENAI_AGENTS_DISABLE_TRACING": "1", "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
CASES = {"up": "upstream up", "outage": "outage", "killed": "killed daemon", "token": "upstream up, with a token"}
SERVICE = "botwired"  # the daemon's name on the network of a compose project
TOKEN = "a/token+of:e2e@"  # in a URL, all of this but the letters is escaped


class Stage:
    """The servers of one case."""

    def __init__(self, report, directory, case):
        self.report, self.directory, self.case = report, directory, case
        self.upstream = Server(directory, "selfhost", "/health", "selfhost", "--db", directory / "upstream.db", "--latency", "50ms")
        guarded = {"address": "0.0.0.0", "token": TOKEN} if case == "token" else {}
        self.daemon = Server(directory, "serve", "/_botwired/readyz", "serve", "--upstream", self.upstream.url, "--data-dir", directory / "data",
                             "--allowed-hosts", json.dumps([SERVICE]), *SETTINGS, **guarded)
        self.meter = None
        self.agents = []

    def __enter__(self):
        self.upstream.up()
        self.daemon.up()
        self.meter = Meter(self.daemon)
        return self

    def __exit__(self, *_):
        if self.meter:
            self.meter.close()
        for process in (*self.agents, self.daemon.process, self.upstream.process):
            if process and process.poll() is None:
                stop(process)

    def start(self, command, url, **options):
        """Starts the client, with its memory at a URL, and with the daemon's settings for botwired's own commands."""
        variables = {**QUIET, "BOTWIRE_URL": url, "E2E_SERVICE": SERVICE,
                     "BOTWIRED_LISTEN": f"127.0.0.1:{self.meter.port}", "BOTWIRED_DATA_DIR": self.directory / "data"}
        agent = spawn(command, self.directory, "client.log", env=variables, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1, **options)
        self.agents.append(agent)
        return agent

    def database(self):
        return database(self.directory / "upstream.db")

    def status(self):
        return json.loads(request("GET", self.daemon.url + "/_botwired/status"))

    def upstream_down(self):
        """Takes upstream down; returns what it holds."""
        self.upstream.down()
        return self.database()

    def check_outage(self, before):
        status = self.status()
        self.report.check("the daemon says that upstream is down", status["upstream"]["state"], "down")
        self.report.check("writes are pending", status["pending"] > 0, True)
        self.report.check("upstream has seen nothing of it", self.database() == before, True)

    def kill_amid_outage(self):
        """Kills the daemon while nobody calls it. What it has acknowledged is there afterwards."""
        pending = self.status()["pending"]
        self.meter.close()
        self.daemon.down()
        self.daemon.up()
        self.meter.reopen()
        deadline = time.monotonic() + START_LIMIT
        while (status := self.status())["rebuilding"]:  # until then it counts what it has found
            if time.monotonic() > deadline:
                raise Failure("the daemon does not come to the end of its journal")
            time.sleep(0.02)
        self.report.check("pending writes outlive the daemon", status["pending"], pending)

    def flush(self):
        start = time.monotonic()
        done = subprocess.run([BINARY, "flush", "--json", "--timeout", "60s", "--listen", f"127.0.0.1:{self.daemon.port}", *self.daemon.credentials],
                              capture_output=True, text=True, cwd=self.directory, env=environment(self.directory))
        self.report.check("botwired flush", (done.returncode, done.stderr), (0, ""))
        if done.returncode == 0:
            result = json.loads(done.stdout)
            self.report.check("nothing is left pending or dead", (result["pending"], result["dead"]), (0, 0))
            self.report.note(f"    flushed in {time.monotonic() - start:.1f} s: {result['settled']} entries settled")

    def listed(self):
        """Waits until the daemon has listed each namespace in use by itself, which it does a moment after the first
        use. In an outage it knows from that list which keys there are not."""
        deadline = time.monotonic() + START_LIMIT
        for namespace in (n["namespace"] for n in self.status()["namespaces"]):
            while not self._knows_list(namespace):
                if time.monotonic() > deadline:
                    raise Failure(f"the daemon does not list {namespace}")
                time.sleep(0.05)

    def _knows_list(self, namespace):
        try:
            return request("GET", f"{self.daemon.url}/memory/{namespace}", {"Cache-Control": "only-if-cached, max-stale"})
        except urllib.error.HTTPError as e:
            if e.code != 504:
                raise
            return None

    def end_daemon(self):
        status = self.status()
        figures = (status["upstream"]["state"], status["pending"], status["dead_letters"])
        self.report.check("upstream up, none pending, no dead letters", figures, ("up", 0, 0))
        metrics = request("GET", self.daemon.url + "/_botwired/metrics")
        acknowledged, sent = _total(metrics, "botwired_request_seconds_count", 'outcome="acknowledged"'), _total(metrics, "botwired_flushes_total", "")
        self.report.note(f"    since the daemon started: {acknowledged} writes acknowledged, {sent} sent upstream")
        self.report.check("SIGTERM: the daemon exits", self.daemon.down(signal.SIGTERM), 0)

    def end_upstream(self):
        self.report.check("SIGTERM: upstream exits", self.upstream.down(signal.SIGTERM), 0)


def _total(metrics, name, label):
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in metrics.splitlines() if line.startswith(name + "{") and label in line)
