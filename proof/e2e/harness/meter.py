"""A pass-through between a client and the daemon, which counts and times the client's calls.

A client sees the daemon through it as it is: each byte is passed on as it comes, and while the daemon is
down, connections are refused.
"""
import contextlib
import socket
import threading
import time
from dataclasses import dataclass

from harness.processes import free_port

WRITES = ("PUT", "POST", "DELETE")
DOWN_FOR = 0.5  # seconds that the daemon stays down after a kill


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    seconds: float
    answered: bool


class Meter:
    """The address that clients use. The daemon itself listens at another port."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.calls = []
        self.kills = 0
        self._writes_to_kill = None
        self._lock = threading.Lock()
        self._open = set()
        self.port = free_port()
        self._listener = _listen(self.port)
        self.url = daemon.url.replace(f":{daemon.port}", f":{self.port}")
        self._accept()

    def kill_at_write(self, number):
        """Kills the daemon when it has answered the client's next write of that number: the answer does not
        arrive. The daemon comes back a moment later."""
        with self._lock:
            self._writes_to_kill = number

    def close(self):
        """Refuses connections from now on, and cuts those that are there."""
        listener, self._listener = self._listener, None
        if listener:
            _shut(listener)
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _shut(connection)

    def reopen(self):
        self._listener = _listen(self.port)
        self._accept()

    def _accept(self):
        threading.Thread(target=self._serve, args=[self._listener], daemon=True).start()

    def _serve(self, listener):
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._relay, args=[client], daemon=True).start()

    def _relay(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.daemon.port)) as daemon:
            with self._lock:
                self._open |= {client, daemon}
            try:
                self._exchange(client, daemon)
            finally:
                with self._lock:
                    self._open -= {client, daemon}

    def _exchange(self, client, daemon):
        """Passes on requests and answers in turns, until either side closes."""
        for connection in (client, daemon):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asking, answering = client.makefile("rb"), daemon.makefile("rb")
        while (asked := _Head(asking)).line:
            begun = time.monotonic()
            method, path, _ = asked.line.decode("latin-1").split(" ", 2)
            answered = streamed = False
            try:
                for piece in asked.message(asking, ends_with_connection=False):
                    daemon.sendall(piece)
                answer = _Head(answering)
                while answer.interim:
                    client.sendall(answer.raw)
                    answer = _Head(answering)
                if not answer.line:
                    return
                streamed = answer.headers.get(b"content-type", b"").startswith(b"text/event-stream")
                kill = self._is_to_kill(method)
                for piece in answer.message(answering, ends_with_connection=True, none=method == "HEAD"):
                    if not kill:
                        client.sendall(piece)
                if kill:
                    self._kill()
                    return
                answered = True
            finally:
                if not streamed:  # a stream has no end that a caller waits for
                    with self._lock:
                        self.calls.append(Call(method, path, time.monotonic() - begun, answered))

    def _is_to_kill(self, method):
        with self._lock:
            if self._writes_to_kill is None or method not in WRITES:
                return False
            self._writes_to_kill -= 1
            if self._writes_to_kill:
                return False
            self._writes_to_kill = None
            return True

    def _kill(self):
        self.daemon.down()
        self.close()
        time.sleep(DOWN_FOR)
        self.daemon.up()
        self.reopen()
        self.kills += 1


class _Head:
    """The first line and the headers of a message of HTTP/1.1. An empty line means that there is none."""

    def __init__(self, source):
        lines = []
        while (line := source.readline(65536)).strip():
            lines.append(line)
        self.raw = b"".join([*lines, line])
        self.line = lines[0].strip() if lines and line else b""
        fields = (field.partition(b":") for field in lines[1:])
        self.headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        self.status = int(self.line.split(b" ")[1]) if self.line.startswith(b"HTTP/") else 0
        self.interim = 100 <= self.status < 200

    def message(self, source, ends_with_connection, none=False):
        """All of the message in pieces, as they come. A request without a length has no body; an answer
        without one ends with the connection."""
        yield self.raw
        if none or self.status in (204, 304):
            return
        if self.headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            yield from _chunks(source)
        elif b"content-length" in self.headers:
            left = int(self.headers[b"content-length"])
            while left:
                piece = _some(source, left)
                left -= len(piece)
                yield piece
        elif ends_with_connection:
            while piece := source.read1(65536):
                yield piece


def _chunks(source):
    while True:
        size = source.readline(100)
        yield size
        left = int(size.partition(b";")[0], 16)
        if not left:
            while (line := source.readline(65536)).strip():  # trailers
                yield line
            yield line
            return
        left += 2  # the line's end
        while left:
            piece = _some(source, left)
            left -= len(piece)
            yield piece


def _some(source, left):
    piece = source.read1(min(left, 65536))
    if not piece:
        raise ConnectionError("cut in a message")
    return piece


def _listen(port):
    return socket.create_server(("127.0.0.1", port), backlog=128)


def _shut(connection):
    with contextlib.suppress(OSError):  # the other side may have closed it
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
