"""A server that lies, dawdles, or floods: an error in time, and no wrong value."""

from __future__ import annotations

import gzip
import json
import socketserver
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from botwired import AsyncMemory, Error, Memory, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENTRY = {"namespace": "n", "key": "k", "value": "v", "created_at": 1.0, "updated_at": 2.0}


@contextmanager
def serve(answer: Callable[[Callable[[bytes], Any]], None]) -> Iterator[str]:
    """Answer each request on a connection of its own with what `answer` sends."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            try:
                answer(self.request.sendall)
            except OSError:
                return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def memory_of(response: httpx.Response) -> Memory:
    """Return a Memory that gets one answer."""
    return Memory("n", "http://127.0.0.1:1", http=httpx.Client(transport=httpx.MockTransport(lambda _: response)))


def test_a_body_that_never_ends_counts_as_no_answer(kind: Any) -> None:
    def drip(send: Callable[[bytes], Any]) -> None:
        send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(100):
            send(b" ")
            time.sleep(0.05)

    with serve(drip) as url:
        memory = kind("n", url, timeout=0.3, patience=0.1)
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"the answer did not end within 0.3 s"):
            memory.get("k")
        assert time.monotonic() - began < 2
        memory.close()


def test_a_body_that_is_too_long_is_not_kept(kind: Any) -> None:
    def flood(send: Callable[[bytes], Any]) -> None:
        send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(1000):
            send(bytes(1_000_000))

    with serve(flood) as url:
        memory = kind("n", url)
        with pytest.raises(Error, match="the answer is longer than 64 MiB"):
            memory.get("k")
        memory.close()


def test_a_body_that_cannot_be_decoded(kind: Any) -> None:
    def lie(send: Callable[[bytes], Any]) -> None:
        send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnono")

    with serve(lie) as url:
        memory = kind("n", url)
        with pytest.raises(Error, match="not one of BotWire's"):
            memory.set("k", 1)
        memory.close()


def test_a_compressed_body(kind: Any) -> None:
    def pack(send: Callable[[bytes], Any]) -> None:
        body = gzip.compress(json.dumps(ENTRY).encode())
        send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with serve(pack) as url:
        memory = kind("n", url)
        assert memory.get("k") == "v"
        memory.close()


@pytest.mark.parametrize("wrong", [{"key": "other"}, {"namespace": "other"}])
def test_an_answer_about_another_entry(wrong: dict[str, str]) -> None:
    """A proxy or a portal that mixes up answers confirms no write, and gives nobody a wrong value."""
    body = {**ENTRY, "stored": True, "deleted": True, **wrong}
    calls: list[Callable[[Memory], Any]] = [lambda m: m.get("k"), lambda m: m.set("k", 1), lambda m: m.delete("k")]
    for call in calls:
        with pytest.raises(Error, match="not one of BotWire's"):
            call(memory_of(httpx.Response(200, json=body)))


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"value":' * 100_000,
        json.dumps({**ENTRY, "created_at": 10**400}).encode(),
        json.dumps({**ENTRY, "updated_at": 1e12}).encode(),
        json.dumps({**ENTRY, "updated_at": float("nan")}).encode(),
        json.dumps({**ENTRY, "value": "\ud800"}).encode(),
    ],
    ids=["deep list", "deep object", "number", "no date", "no number", "surrogate"],
)
def test_json_that_python_does_not_take(body: bytes) -> None:
    with pytest.raises(Error, match="not one of BotWire's"):
        memory_of(httpx.Response(200, content=body)).get("k")


@pytest.mark.parametrize("following", ["k7", "a", 7, ["k7"], True, "\ud800"])
def test_pages_of_keys_that_go_round_in_a_circle(following: Any) -> None:
    rows = [{"key": f"k{n}"} for n in range(1000)]

    def answer(request: httpx.Request) -> httpx.Response:
        page = {"entries": [{"key": "k7", "op": "put"}], "next": following, "complete": True}
        body = page if "entries" in request.url.path else {"namespace": "n", "count": 1000, "keys": rows}
        return httpx.Response(200, content=json.dumps(body), headers={"Cache-Status": "botwired; hit"})

    memory = Memory("n", "http://127.0.0.1:1", http=httpx.Client(transport=httpx.MockTransport(answer)))
    with pytest.raises(Error, match="not one of BotWire's"):
        memory.list_keys()


def test_a_number_of_a_write_that_python_does_not_take() -> None:
    """It is no reason to say that a write has failed which was made."""
    headers = {"Botwired-Write": "pending; seq=" + "9" * 5000}
    written = memory_of(httpx.Response(200, json={**ENTRY, "stored": True}, headers=headers)).set("k", 1)
    assert (written.state, written.seq) == ("pending", None)


@pytest.mark.parametrize(
    "url",
    [
        "http://x:sesame/1@host:2689",
        "http://x:sesame\u2100@host:2689",
        "http://x:sesame@[host",
        "http://x:ses#ame@h",
    ],
)
@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_an_error_does_not_show_the_token(kind: Any, url: str) -> None:
    with pytest.raises(ValueError, match="no valid host or port") as error:
        kind("n", base_url=url)
    shown: BaseException | None = error.value
    while shown is not None:
        assert "sesame" not in str(shown)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
