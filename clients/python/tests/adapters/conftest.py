"""The servers that the adapters' tests talk to: a daemon, and a plain BotWire without one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from botwired import AsyncMemory, Memory

# Without these, CrewAI reports its use, and the OpenAI Agents SDK its traces.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")
os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="true")

BINARY = Path(os.environ.get("BOTWIRED_BINARY", Path(__file__).resolve().parents[4] / "bin" / "botwired"))
START_LIMIT = 30  # seconds


class Server:
    """A botwired that can be killed and started again at the same address."""

    def __init__(self, directory: Path, *args: str) -> None:
        self._directory, self._args, self._address = directory, args, "127.0.0.1:0"
        self.start()

    @property
    def url(self) -> str:
        return f"http://{self._address}"

    def start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BOTWIRE")}
        environment.update(HOME=str(self._directory), XDG_CONFIG_HOME="", XDG_STATE_HOME="")
        self._process = subprocess.Popen(
            [str(BINARY), *self._args, "--listen", self._address],
            cwd=self._directory,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        timer = threading.Timer(START_LIMIT, self._process.kill)
        timer.start()
        assert self._process.stderr is not None
        for line in self._process.stderr:
            record = json.loads(line)
            if record["msg"] == "listening":
                self._address = record["address"]
                break
        else:
            raise AssertionError(f"botwired {self._args[0]} does not start")
        timer.cancel()
        self._drain = threading.Thread(target=self._process.stderr.read)  # or the pipe fills up
        self._drain.start()

    def kill(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)
        self._process.wait(START_LIMIT)
        self._drain.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """BotWire itself: it keeps no versions, and has no surface of its own."""
    directory = tmp_path_factory.mktemp("plain")
    server = Server(directory, "selfhost", "--db", str(directory / "memory.db"))
    yield server
    server.kill(signal.SIGTERM)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, plain: Server) -> Iterator[Server]:
    """A daemon in front of the plain BotWire."""
    directory = tmp_path_factory.mktemp("daemon")
    server = Server(directory, "serve", "--upstream", plain.url, "--data-dir", str(directory / "data"))
    yield server
    server.kill(signal.SIGTERM)


@pytest.fixture(params=["daemon", "plain"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def namespace() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def memory(server: Server, namespace: str) -> Iterator[Memory]:
    with Memory(namespace, server.url) as memory:
        yield memory


@pytest.fixture
async def async_memory(server: Server, namespace: str) -> AsyncIterator[AsyncMemory]:
    async with AsyncMemory(namespace, server.url) as memory:
        yield memory


@pytest.fixture
def own_daemon(tmp_path: Path, plain: Server) -> Iterator[Callable[[], Server]]:
    """A daemon that the test may kill."""
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(tmp_path, "serve", "--upstream", plain.url, "--data-dir", str(tmp_path / "data")))
        return started[-1]

    yield start
    for server in started:
        server.kill()
