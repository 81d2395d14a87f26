"""Processes of one run: each ends with it, whatever happens."""
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from harness import BINARY

START_LIMIT = 30  # seconds for a server to answer, on a machine that is busy with other cases

_running = set()
_given, _claims = set(), []  # ports, and sockets that nobody connects to
_lock = threading.Lock()
_over = False  # nothing starts any more


class Failure(Exception):
    """Something without which it makes no sense to go on."""


def spawn(args, directory, log, env=None, **options):
    """A process in an environment that knows no proxy and no settings but ours."""
    with open(directory / log, "ab") as stderr, _lock:
        if _over:
            raise Failure("the run is over")
        process = subprocess.Popen([str(a) for a in args], cwd=directory, env=environment(directory, env), stderr=stderr, **options)
        _running.add(process)
    return process


def environment(directory, more=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BOTWIRE") and not k.lower().endswith("_proxy")}
    clean["PATH"] = f"{BINARY.parent}:{clean['PATH']}"
    return {**clean, "HOME": str(directory), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", **(more or {})}


def stop(process, with_signal=signal.SIGKILL):
    """Ends a process and waits for it; returns its exit code."""
    process.send_signal(with_signal)
    try:
        code = process.wait(START_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    with _lock:
        _running.discard(process)
    return code


def ended(process, within):
    """The exit code of a process that ends by itself."""
    code = process.wait(within)
    with _lock:
        _running.discard(process)
    return code


def stop_all():
    """Ends every process, and lets no other start."""
    global _over
    with _lock:
        _over = True
        processes = list(_running)
    for process in processes:
        stop(process)


def free_port():
    """A port where nobody listens. The system gives it to nobody else while its server is down, as it would those from
    32768 on. This process does not get it again, nor on Linux a test in Go: see proof/loopback."""
    while True:
        port = random.randrange(10_000, 32_768)
        if port in _given or not _claim(port):
            continue
        _given.add(port)
        with socket.socket() as s:
            s.settimeout(1)
            if s.connect_ex(("127.0.0.1", port)) != 0:
                return port


def _claim(port):
    """Claims the port for as long as this process runs; returns False if another process has it. The claim is the name of
    a socket: only Linux has names without files."""
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0botwired test 127.0.0.1:{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


class Server:
    """A botwired that can be taken down and brought up again at the same address."""

    def __init__(self, directory, name, ready, *args, address="127.0.0.1", token="", program=BINARY):
        self.directory, self.name, self.ready = directory, name, ready
        self.port = free_port()
        self.credentials = []  # flags for commands that talk to it
        user = ""
        if token:
            (directory / "token").write_text(token + "\n")
            (directory / "token").chmod(0o600)
            self.credentials = ["--auth-token-file", str(directory / "token")]
            user = f"x:{urllib.parse.quote(token, safe='')}@"
        self.url = f"http://{user}127.0.0.1:{self.port}"
        self.args = [program, *args, *self.credentials, "--listen", f"{address}:{self.port}"]
        self.process = None

    def up(self):
        self.process = spawn(self.args, self.directory, f"{self.name}.log", stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                return request("GET", self.url + self.ready)
            except (OSError, urllib.error.URLError) as e:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise Failure(f"{self.name} does not start: {e}") from None
                time.sleep(0.02)

    def down(self, with_signal=signal.SIGKILL):
        return stop(self.process, with_signal)


def request(method, url, headers=None):
    """The body of a successful answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    password = urllib.parse.urlsplit(url).password
    headers = {**({"Authorization": "Bearer " + urllib.parse.unquote(password)} if password else {}), **(headers or {})}
    url = re.sub("//.*@", "//", url)
    with opener.open(urllib.request.Request(url, method=method, headers=headers), timeout=90) as answer:
        return answer.read().decode()
