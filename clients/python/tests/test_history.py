"""The history of an entry, its authors, and undo, on a real daemon and on plain BotWire."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from servers import ROOT, selfhost

from botwired import Conflict, Memory, Refused, Revision, Unavailable, Unsupported
from botwired._http import headers_for
from botwired._rules import Rules, given
from botwired._steps import Answer, Lost, Request, Sleep

if TYPE_CHECKING:
    from pathlib import Path

    from servers import Server


def test_the_states_of_an_entry(memory: Any) -> None:
    assert memory.history("k") == []
    memory.set("k", [1])
    memory.set("k", "two")
    memory.delete("k", wait=10)
    now, two, one = memory.history("k")
    assert (now.exists, now.value, now.state, now.here) == (False, None, "settled", True)
    assert (two.exists, two.value, two.state) == (True, "two", "superseded")
    assert one.value == [1]
    assert now.written_at >= two.written_at >= one.written_at > 1_700_000_000
    assert int(one.name) < int(two.name)


@pytest.mark.parametrize("key", ["k", "a key: of any characters", "長" * 200])
def test_undo(memory: Any, key: str) -> None:
    memory.set(key, {"v": 1})
    memory.set(key, {"v": 2})
    assert memory.undo(key).value == {"v": 1}
    assert memory.get(key) == {"v": 1}
    assert memory.undo(key).value == {"v": 2}
    memory.delete(key)
    assert memory.undo(key).exists
    first = memory.history(key)[-1]
    assert memory.undo(key, first).value == {"v": 1}
    assert memory.undo(key, to=memory.history(key)[1].name).value == {"v": 2}


def test_an_undo_that_is_refused(memory: Any) -> None:
    with pytest.raises(Refused) as refused:
        memory.undo("k")
    assert refused.value.status == 404
    memory.set("k", 1)
    with pytest.raises(Refused, match="nothing to undo") as refused:
        memory.undo("k")
    assert refused.value.status == 409
    with pytest.raises(Refused) as refused:
        memory.undo("k", 123456789)
    assert refused.value.status == 404
    nameless = Revision(None, "absent", False, None, "", "", False, 0)
    with pytest.raises(ValueError, match="no undo leads to this state"):
        memory.undo("k", nameless)


STATES = Answer(200, {"etag": '"2-x"'}, b'{"revisions":[]}')


def test_an_undo_is_made_once() -> None:
    steps = Rules("n", 30, "here", "me").undo("k", None)
    assert next(steps) == Request("GET", "/_botwired/revisions?namespace=n&key=k")
    request = steps.send(STATES)
    headers = {"botwired-author": "me", **given("if-match", '"2-x"')}
    assert request == Request("POST", "/_botwired/undo?namespace=n&key=k", headers)
    assert isinstance(steps.send(Lost("cut off", True)), Sleep)
    assert steps.send(None) == request
    steps.send(Answer(412, {}, b'{"detail":"the entry is not as If-Match names it"}'))
    with pytest.raises(Unavailable, match="was lost"):
        steps.send(Answer(404, {}, b'{"detail":"Key not found: n/k"}'))


def test_an_undo_after_another_writer() -> None:
    steps = Rules("n", 30, "here", "").undo("k", "w7")
    next(steps)
    request = Request("POST", "/_botwired/undo?namespace=n&key=k&to=w7", given("if-match", '"2-x"'))
    assert steps.send(STATES) == request
    steps.send(Answer(412, {}, b'{"detail":"the entry is not as If-Match names it"}'))
    with pytest.raises(Conflict):
        steps.send(Answer(404, {}, b'{"detail":"Key not found: n/k"}'))


def test_a_history_of_another_server(tmp_path: Path, kind: Any) -> None:
    server = selfhost(tmp_path).start()
    memory = kind("n", base_url=server.url)
    memory.set("k", 1)
    with pytest.raises(Unsupported, match="needs a botwired"):
        memory.history("k")
    with pytest.raises(Unsupported, match="needs a botwired"):
        memory.undo("k")
    memory.close()
    server.stop()


def authors(memory: Any, key: str) -> list[str]:
    return [state.author for state in memory.history(key)]


def test_the_author(server: Server, namespace: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = kind(namespace, base_url=server.url, author="Müller's agent")
    memory.set("k", 1)
    memory.delete("k")
    memory.undo("k")
    assert authors(memory, "k") == ["Müller's agent"] * 3
    memory.close()
    monkeypatch.setenv("BOTWIRED_AUTHOR", "of the\nenvironment")
    memory = kind(namespace, base_url=server.url)
    memory.set("env", 1)
    assert authors(memory, "env") == ["of the?environment"]
    memory.close()
    for wrong in ["", "x" * 65, "a\nb", "\ud800"]:
        with pytest.raises(ValueError, match="1 to 64 printable characters"):
            kind(namespace, author=wrong)


@pytest.mark.parametrize(
    ("arguments", "author"),
    [(["agent.py"], "agent"), (["-m", "team.planner"], "planner"), (["-c", "import agent"], "botwired-python")],
)
def test_the_author_is_the_program(
    server: Server, namespace: str, tmp_path: Path, arguments: list[str], author: str
) -> None:
    code = f"from botwired import Memory\nMemory({namespace!r}, {server.url!r}).set('k', 1)\n"
    (tmp_path / "agent.py").write_text(code)
    (tmp_path / "team" / "planner").mkdir(parents=True)
    (tmp_path / "team" / "planner" / "__main__.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src")}
    subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment, check=True)
    with Memory(namespace, base_url=server.url) as memory:
        assert authors(memory, "k") == [author]


def test_headers_are_utf_8() -> None:
    memory = Memory("n", base_url="http://x:t@127.0.0.1:1")
    headers = headers_for(memory._address, Request("PUT", "/", {"botwired-author": "ü"}))
    assert headers[b"botwired-author"] == b"\xc3\xbc"
    assert headers[b"authorization"].startswith(b"Basic ")
