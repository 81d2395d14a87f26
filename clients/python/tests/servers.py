"""Real servers for the tests: botwired and BotWire's service, on addresses that the system chooses."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("BOTWIRED_BINARY", str(ROOT / "bin" / "botwired"))


class Server:
    """A process of the binary. It keeps its address and its files from one start to the next."""

    def __init__(self, folder: Path, *arguments: str, listen: str = "127.0.0.1:0") -> None:
        self.folder = folder
        self.address = listen
        self.output: list[str] = []
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._place: socket.socket | None = None

    @property
    def url(self) -> str:
        """The base URL."""
        return self.address if self.address.startswith("unix:") else f"http://{self.address}"

    def start(self) -> Server:
        """Start, and return when it listens."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BOTWIRE") and "PROXY" not in k.upper()}
        command = [BINARY, *self._arguments, "--listen", self.address]
        self._release()
        self._process = subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.output.append(line)
            record = _parse(line)
            if record.get("msg") == "listening":
                if not self.address.startswith("unix:"):
                    self.address = str(record["address"])
                break
        else:
            self._process.wait(20)
            self._process.stderr.close()
            raise RuntimeError(f"{command} has ended: {''.join(self.output)}")
        self._reader = threading.Thread(target=self.output.extend, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        return self

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def away(self) -> Server:
        """End it for a while. Until the next start, its address refuses connections, and nobody else gets it."""
        self.stop()
        host, port = self.address.rsplit(":", 1)
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind((host, int(port)))
        return self

    def _release(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None

    def _end(self, number: int) -> None:
        self._release()
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.wait(20)
        assert self._reader is not None
        self._reader.join()
        assert process.stderr is not None
        process.stderr.close()


def daemon(folder: Path, *settings: str, upstream: str = "embedded", listen: str = "127.0.0.1:0") -> Server:
    """Return a botwired that is not started yet."""
    near = ["--embedded-latency", "1ms"] if upstream == "embedded" else []
    return Server(
        folder, "serve", "--upstream", upstream, "--data-dir", str(folder / "data"), "--flush-drain-timeout", "1s",
        *near, *settings, listen=listen,
    )  # fmt: skip


def selfhost(folder: Path) -> Server:
    """Return a plain BotWire that is not started yet."""
    return Server(folder, "selfhost", "--db", str(folder / "memory.db"))


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
