"""The servers of one case: an upstream, a daemon in front of it, and a meter between the daemon and the client."""
import contextlib
import json
import signal
import subprocess
import time
import urllib.error

from harness import BINARY, SEALED, TAP
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


class Tapped(Server):
    """An upstream, all of whose bytes a tap reads: nothing plain may come."""

    received = []  # what the taps have counted, in all cases

    def __init__(self, report, behind):
        super().__init__(behind.directory, "tap", behind.ready, "-to", f"127.0.0.1:{behind.port}", program=TAP)
        self.report, self.behind = report, behind

    def up(self):
        self.behind.up()
        super().up()

    def down(self, with_signal=signal.SIGKILL):
        self.report.check("nothing plain has gone upstream", super().down(signal.SIGTERM), 0)
        self.received.append((self.directory / "tap.log").read_text().splitlines()[-1])
        return self.behind.down(with_signal)


class Stage:
    """The servers of one case."""

    def __init__(self, report, directory, case, client):
        self.report, self.directory, self.case = report, directory, case
        self.upstream = self.memory = Server(directory, "selfhost", "/health", "selfhost", "--db", directory / "upstream.db", "--latency", "50ms")
        if SEALED:
            self.upstream = Tapped(report, self.memory)
            subprocess.run([BINARY, "seal", "keygen", directory / "keys"], check=True, capture_output=True, env=environment(directory))
        # botwired mcp uses no daemon behind another program's port, as the meter is, but one with its token off loopback.
        guarded = {"address": "0.0.0.0", "token": TOKEN} if case == "token" or client.needs_daemon else {}
        self.daemon = self._serve("data", **guarded)
        self.meter = None
        self.agents = []
        self.namespaces = []  # of which the daemon knew something when it ended

    def _serve(self, data, **options):
        sealed = ["--seal-key-file", self.directory / "keys", "--namespaces", '[{"match":"*","sealed":true}]'] if SEALED else []
        return Server(self.directory, "serve", "/_botwired/readyz", "serve", "--upstream", self.upstream.url, "--data-dir", self.directory / data,
                      "--allowed-hosts", json.dumps([SERVICE]), *SETTINGS, *sealed, **options)

    @contextlib.contextmanager
    def apart(self):
        """What has all of the memory without the daemon: upstream itself or, of a sealed memory, another host with the keys."""
        if not SEALED:
            yield self.upstream
            return
        other = self._serve("other")
        other.up()
        self.agents.append(other.process)
        yield other
        self.report.check("SIGTERM: the other host's daemon exits", other.down(signal.SIGTERM), 0)

    def __enter__(self):
        self.upstream.up()
        self.daemon.up()
        self.meter = Meter(self.daemon)
        return self

    def __exit__(self, *_):
        if self.meter:
            self.meter.close()
        for process in (*self.agents, self.daemon.process, self.upstream.process, self.memory.process):
            if process and process.poll() is None:
                stop(process)

    def start(self, command, url, **options):
        """Starts the client, with its memory at a URL, and with the daemon's settings for botwired's own commands."""
        variables = {**QUIET, "BOTWIRE_URL": url, "E2E_SERVICE": SERVICE,
                     "BOTWIRED_LISTEN": f"127.0.0.1:{self.meter.port}", "BOTWIRED_DATA_DIR": self.directory / "data"}
        if self.daemon.credentials:
            variables["BOTWIRED_AUTH_TOKEN_FILE"] = self.directory / "token"
        agent = spawn(command, self.directory, "client.log", env=variables, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1, **options)
        self.agents.append(agent)
        return agent

    def database(self):
        """All that upstream holds, as it is."""
        return database(self.directory / "upstream.db")

    def held(self):
        """All that upstream holds; of a sealed memory, what another host with the keys reads there of the daemon's namespaces."""
        held = self.database()
        if SEALED:
            with self.apart() as host:
                keys = [(ns, row["key"]) for ns in self.namespaces for row in _get(f"{host.url}/memory/{ns}?limit=1000")["keys"]]
                opened = {(ns, key): _get(f"{host.url}/memory/{ns}/{key}")["value"].encode() for ns, key in keys}
            self.report.check("upstream's database holds no other entries", len(held), len(opened))
            return opened
        return held

    def status(self):
        return json.loads(request("GET", self.daemon.url + "/_botwired/status"))

    def upstream_down(self):
        """Takes upstream down; returns what it holds."""
        self.upstream.down()
        return self.database()

    def check_outage(self, before):
        deadline = time.monotonic() + START_LIMIT
        while (status := self.status())["upstream"]["state"] != "down" and time.monotonic() < deadline:
            time.sleep(0.05)  # a single failure does not make it so, and a quick client causes no more
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
        self.namespaces = [n["namespace"] for n in _get(f"{self.daemon.url}/_botwired/namespaces?limit=1000")["namespaces"]]
        figures = (status["upstream"]["state"], status["pending"], status["dead_letters"], status["conflicts"])
        self.report.check("upstream up, none pending, no dead letters, no conflicts", figures, ("up", 0, 0, 0))
        metrics = request("GET", self.daemon.url + "/_botwired/metrics")
        acknowledged, sent = _total(metrics, "botwired_request_seconds_count", 'outcome="acknowledged"'), _total(metrics, "botwired_flushes_total", "")
        self.report.note(f"    since the daemon started: {acknowledged} writes acknowledged, {sent} sent upstream")
        self.report.check("SIGTERM: the daemon exits", self.daemon.down(signal.SIGTERM), 0)

    def end_upstream(self):
        self.report.check("SIGTERM: upstream exits", self.upstream.down(signal.SIGTERM), 0)


def _get(url):
    return json.loads(request("GET", url))


def _total(metrics, name, label):
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in metrics.splitlines() if line.startswith(name + "{") and label in line)
