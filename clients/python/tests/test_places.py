"""The same memory with a token, over a Unix socket, behind a proxy, in forked processes, and on plain BotWire."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from servers import Server, daemon, selfhost

from botwired import ABSENT, Memory, Refused, Unauthorized, Unavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "a/token+of:tests@"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    server = daemon(folder, "--auth-token-file", str(folder / "token")).start()
    yield server
    server.stop()


def test_a_token(kind: Any, guarded: Server) -> None:
    in_url = f"http://x:a%2Ftoken%2Bof%3Atests%40@{guarded.address}"
    for arguments in ({"base_url": guarded.url, "token": TOKEN}, {"base_url": in_url}):
        memory = kind("token", **arguments)
        memory.set("k", 1)
        assert memory.get("k") == 1
        assert TOKEN not in repr(memory)
        memory.close()
    for arguments in ({}, {"token": "another"}):
        memory = kind("token", base_url=guarded.url, **arguments)
        with pytest.raises(Unauthorized, match=r"HTTP 401\): pass token="):
            memory.get("k")
        memory.close()


def test_a_unix_socket(kind: Any, tmp_path: Path) -> None:
    server = daemon(tmp_path, listen=f"unix://{tmp_path}/b.sock").start()
    memory = kind("socket", base_url=server.url)
    memory.set("user:42", [1])
    assert memory.update("user:42", lambda v: [*v, 2]) == [1, 2]
    assert memory.base_url == server.url
    server.kill()
    server.start()
    assert memory.get("user:42") == [1, 2]
    memory.close()
    server.stop()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The environment's proxy, and the first line that it has been sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    def refuse() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                line = connection.recv(65536).split(b"\r\n")[0].decode()
                body = f'{{"detail":"the proxy has: {line}"}}'
                answer = f"HTTP/1.1 403 No\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
                connection.sendall(answer.encode())

    thread = threading.Thread(target=refuse)
    thread.start()
    yield "the proxy has: GET"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_loopback_goes_through_no_proxy(kind: Any, server: Server, namespace: str, proxy: str) -> None:
    memory = kind(namespace, base_url=server.url)
    memory.set("k", 1)
    assert memory.get("k") == 1
    memory.close()
    elsewhere = kind(namespace, base_url="http://botwired.test:2689")
    with pytest.raises(Refused, match=proxy):
        elsewhere.get("k")
    elsewhere.close()


def in_child(memory: Memory, me: int) -> None:
    """Update what the parent and the other children update, too."""
    for _ in range(20):
        memory.update("n", lambda n: n + 1)
    memory.set(f"child:{me}", me)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(server: Server, namespace: str, method: str) -> None:
    processes: Any = multiprocessing.get_context(method)
    with Memory(namespace, base_url=server.url) as memory:
        memory.set("n", 0)  # the parent has a connection
        children = [processes.Process(target=in_child, args=(memory, n)) for n in range(3)]
        for child in children:
            child.start()
        in_child(memory, 3)
        for child in children:
            child.join(60)
        assert [child.exitcode for child in children] == [0, 0, 0]
        assert memory.get("n") == 80
        assert sorted(v for _, v in memory.items("child:")) == [0, 1, 2, 3]


def test_a_fork_amid_an_update(server: Server, namespace: str) -> None:
    processes: Any = multiprocessing.get_context("fork")
    with Memory(namespace, base_url=server.url) as memory:
        memory.set("n", 0)
        is_held, may_go_on = threading.Event(), threading.Event()

        def hold(n: int) -> int:
            is_held.set()
            assert may_go_on.wait(60)
            return n + 1

        holder = threading.Thread(target=memory.update, args=("n", hold))
        holder.start()
        assert is_held.wait(60)
        child = processes.Process(target=in_child, args=(memory, 1))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        may_go_on.set()
        holder.join()
        assert memory.get("n") == 21


def test_a_memory_travels_by_pickle(server: Server, namespace: str) -> None:
    with Memory(namespace, base_url=server.url) as memory:
        memory.set("k", 1)
        with pickle.loads(pickle.dumps(memory)) as copy:
            assert copy.get("k") == 1


def test_plain_botwire(kind: Any, tmp_path: Path) -> None:
    server = selfhost(tmp_path).start()
    memory = kind("team:a", base_url=server.url)
    written = memory.set("user:42", {"n": 1})
    assert (written.version, written.state, written.seq) == (None, None, None)
    assert memory.entry("user:42").version is None
    assert memory.update("user:42", lambda v: {"n": v["n"] + 1}) == {"n": 2}
    assert memory.update("new", lambda n: n + 1, default=0) == 1
    assert memory.list_keys("user:") == ["user:42"]
    for condition in (ABSENT, '"1-x"'):
        with pytest.raises(Unsupported, match="if_version needs a botwired: the server at this URL keeps no versions"):
            memory.set("user:42", 1, if_version=condition)
    with pytest.raises(Unsupported):
        memory.delete("user:42", if_version='"1-x"')
    with pytest.raises(Unsupported):
        memory.set("user:42", 1, if_version=written.version)
    assert memory.get("user:42") == {"n": 2}
    assert memory.clear() == 2
    memory.close()
    server.stop()


def test_a_thousand_keys_of_plain_botwire(tmp_path: Path) -> None:
    server = selfhost(tmp_path).start()
    with Memory("n", base_url=server.url) as memory:
        for n in range(1001):
            memory.set(f"k{n}", n)
        with pytest.warns(UserWarning, match="may lack keys: BotWire lists no more than 1,000"):
            assert len(memory.list_keys()) == 1000
    server.stop()


def test_an_upstream_that_is_away(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "upstream").mkdir()
    upstream = selfhost(tmp_path / "upstream").start().away()
    server = daemon(tmp_path, "--upstream-timeout", "200ms", upstream=upstream.url).start()
    hasty = kind("away", base_url=server.url, patience=0.2)
    with pytest.raises(Unavailable, match="HTTP 503"):
        hasty.get("k")
    assert hasty.set("k", 1).state == "pending"
    assert hasty.get("k") == 1
    hasty.close()
    patient = kind("away", base_url=server.url)
    thread = threading.Thread(target=upstream.start)
    thread.start()
    assert patient.get("other") is None
    thread.join()
    patient.close()
    server.stop()
    upstream.stop()


def test_a_full_journal(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "upstream").mkdir()
    upstream = selfhost(tmp_path / "upstream").start().away()
    server = daemon(tmp_path, "--journal-max-bytes", "1MiB", upstream=upstream.url).start()
    memory = kind("limits", base_url=server.url)
    with pytest.raises(Refused, match="HTTP 507") as refused:
        for n in range(20):
            memory.set(f"k{n}", "x" * 100_000)
    assert refused.value.status == 507
    memory.close()
    server.stop()
    upstream.stop()


def test_limits_of_a_namespace(kind: Any, tmp_path: Path) -> None:
    ledger = '[{"match": "ledger", "write_through": true, "quota": {"writes_per_day": 1}}]'
    server = daemon(tmp_path, "--namespaces", ledger).start()
    memory = kind("limits", base_url=server.url)
    with pytest.raises(Refused, match=r"Value too large.*HTTP 400"):
        memory.set("k", "x" * 100_001)
    memory.close()
    through = kind("ledger", base_url=server.url)
    assert through.set("k", 1).state == "settled"
    with pytest.raises(Unavailable, match=r"still pending.*HTTP 504"):
        through.set("k", 2)
    assert through.get("k") == 2
    through.close()
    server.stop()
