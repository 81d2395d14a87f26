"""A memory takes each answer, and a lost one, as it should: scripted answers, without a server."""

from __future__ import annotations

import base64
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from botwired import ABSENT, AsyncMemory, Conflict, Error, Memory, Refused, Unauthorized, Unavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

FROM_BOTWIRED = {"cache-status": "botwired; hit"}
STORED = httpx.Response(
    200,
    json={"namespace": "n", "key": "k", "stored": True},
    headers={"botwired-write": "pending; seq=7", "etag": '"7-x"'},
)
OTHER = httpx.Response(200, json={"value": 1, "keys": [{"name": "k"}], "ok": True})
DELETED = httpx.Response(200, json={"namespace": "n", "key": "k", "deleted": True})
ABSENCE = httpx.Response(404, json={"detail": "Key not found: n/k"}, headers=FROM_BOTWIRED)
UNMET = httpx.Response(412, json={"detail": "it has changed"}, headers=FROM_BOTWIRED)


def refusal(status: int, detail: str = "no", **headers: str) -> httpx.Response:
    """Return the answer of an error."""
    return httpx.Response(status, json={"detail": detail}, headers={k.replace("_", "-"): v for k, v in headers.items()})


def found(value: str, version: str) -> httpx.Response:
    """Return the answer with an entry."""
    body = {"namespace": "n", "key": "k", "value": value, "created_at": 1.0, "updated_at": 2.0}
    return httpx.Response(200, json=body, headers={"etag": version, **FROM_BOTWIRED})


class Script:
    """A server that gives these answers in turn, and then the last one for ever. An exception is a lost answer."""

    def __init__(self, *answers: httpx.Response | type[httpx.TransportError]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, httpx.Response):
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        raise answer("the answer was lost")

    def memory(self, patience: float = 5.0, token: str | None = None) -> Memory:
        """Return a Memory that asks this server."""
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Memory("n", base_url="http://127.0.0.1:1", patience=patience, token=token, http=http)

    @property
    def methods(self) -> list[str]:
        """The methods of all requests."""
        return [request.method for request in self.requests]


CALLS: list[Callable[[Memory], Any]] = [
    lambda m: m.get("k"), lambda m: m.entry("k"), lambda m: m.set("k", 1), lambda m: m.delete("k"),
    lambda m: m.list_keys(), lambda m: m.exists("k"), lambda m: m.update("k", lambda v: v, default=1),
]  # fmt: skip
each_call = pytest.mark.parametrize("call", CALLS)


@pytest.fixture
def own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only while a call sleeps: a machine that stalls takes nothing of the patience."""
    slept: list[float] = []
    monkeypatch.setattr("botwired._retry.time", SimpleNamespace(monotonic=lambda: sum(slept)))
    monkeypatch.setattr("botwired._sync.time", SimpleNamespace(sleep=slept.append))


@each_call
@pytest.mark.parametrize("status", [400, 403, 405, 413, 422, 500, 507, 508, 307])
def test_a_refusal(call: Callable[[Memory], Any], status: int) -> None:
    script = Script(refusal(status, "the disk is full"))
    with pytest.raises(Refused, match=rf"the disk is full \(HTTP {status}\)") as refused:
        call(script.memory())
    assert (refused.value.status, refused.value.detail) == (status, "the disk is full")
    assert len(script.requests) == 1


@each_call
def test_a_token_that_is_missing(call: Callable[[Memory], Any]) -> None:
    with pytest.raises(Unauthorized, match=r"a token, please \(HTTP 401\): pass token="):
        call(Script(refusal(401, "a token, please")).memory())


@each_call
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_to_wait(call: Callable[[Memory], Any], status: int) -> None:
    script = Script(refusal(status), refusal(status), refusal(400))
    with pytest.raises(Refused):
        call(script.memory())
    assert len(script.requests) == 3


@each_call
@pytest.mark.usefixtures("own_time")
def test_a_server_that_is_busy_for_longer_than_the_patience(call: Callable[[Memory], Any]) -> None:
    script = Script(refusal(503, "upstream is down", retry_after="1"))
    with pytest.raises(Unavailable, match=r"upstream is down \(HTTP 503, and no other answer for 0.1 s\)"):
        call(script.memory(patience=0.1))
    assert len(script.requests) == 2


def test_a_read_while_upstream_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botwired._retry._UPSTREAM_PATIENCE", 0.1)
    script = Script(refusal(503, "not known here, and upstream is unavailable. Set offline: assume-absent"))
    with pytest.raises(Unavailable, match=r"Set offline: assume-absent \(HTTP 503, and no other answer for 0.1 s\)"):
        script.memory(patience=30).get("k")


@each_call
def test_a_throttled_namespace_is_not_asked_again_before_its_time(call: Callable[[Memory], Any]) -> None:
    script = Script(refusal(429, "the quota is used up", retry_after="3600"))
    with pytest.raises(Unavailable, match="the quota is used up"):
        call(script.memory())
    assert len(script.requests) == 1


@each_call
@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError])
def test_a_lost_answer(call: Callable[[Memory], Any], error: type[httpx.TransportError]) -> None:
    script = Script(error, error, refusal(400))
    with pytest.raises(Refused):
        call(script.memory())
    assert len(script.requests) == 3


@each_call
def test_no_answer_at_all(call: Callable[[Memory], Any]) -> None:
    with pytest.raises(
        Unavailable, match=r"no answer from http://127.0.0.1:1 for 0.1 s: the answer was lost. Is botwired"
    ):
        call(Script(httpx.ConnectError).memory(patience=0.1))


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
@pytest.mark.parametrize("argument", ["timeout", "patience"])
@pytest.mark.parametrize(("value", "error"), [(None, TypeError), ("5", TypeError), (-1, ValueError)])
def test_a_time_that_is_no_number_of_seconds(kind: Any, argument: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"{argument} must be a number of seconds, not {value!r}"):
        kind("n", **{argument: value})


@each_call
@pytest.mark.parametrize(
    "answer",
    [httpx.Response(200, text="<html>Log in</html>"), httpx.Response(200, json=[1]), refusal(404, "Not Found"), OTHER],
    ids=["portal", "list", "404", "other"],
)
def test_another_server(call: Callable[[Memory], Any], answer: httpx.Response) -> None:
    with pytest.raises(Error, match=r"not one of BotWire's|Not Found"):
        call(Script(answer).memory())


def test_a_hasty_read_uses_up_no_other_ones_patience() -> None:
    unknown = refusal(503, "not known here, and upstream is unavailable")
    with pytest.raises(Unavailable, match="HTTP 503"):
        Script(unknown).memory(patience=0.01).get("k")
    assert Script(unknown, found("1", "x")).memory().get("k") == 1


def test_of_the_reads_in_an_outage_the_first_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botwired._retry._UPSTREAM_PATIENCE", 0.1)
    unknown = refusal(503, "not known here, and upstream is unavailable")
    copy = found("1", "x")
    copy.headers["cache-status"] = "botwired; hit; detail=stale-if-error"
    from_upstream = found("1", "x")
    from_upstream.headers["cache-status"] = "botwired; fwd=miss"
    memory = (script := Script(unknown)).memory()
    with pytest.raises(Unavailable, match=r"no other answer for 0\.1 s"):
        memory.get("k")
    for _ in range(3):
        before = len(script.requests)
        with pytest.raises(Unavailable, match="not known here"):
            memory.get("k")
        assert len(script.requests) == before + 1
        with pytest.raises(Unavailable, match="not known here"):
            script.memory().get("k")  # another memory of the same server: a session's, say
        assert len(script.requests) == before + 2
        script.answers[:] = [copy, unknown]
        assert memory.get("k") == 1
    script.answers[:] = [from_upstream, unknown]
    assert memory.get("k") == 1
    with pytest.raises(Unavailable, match=r"no other answer for 0\.1 s"):
        memory.get("k")


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway(status: int) -> None:
    assert Script(refusal(status), found("1", "x")).memory().get("k") == 1
    writes: list[Callable[[Memory], Any]] = [lambda m: m.set("k", 1), lambda m: m.delete("k")]
    for write in writes:
        script = Script(refusal(status, "upstream did not answer"), STORED)
        with pytest.raises(Unavailable, match="the write may have been made, so read the entry"):
            write(script.memory())
        assert len(script.requests) == 1


def test_a_write_whose_answer_is_lost() -> None:
    script = Script(found("5", '"1-x"'), httpx.ReadError, STORED)
    memory = script.memory()
    assert memory.set("k", 6, if_version='"1-x"').version == '"7-x"'
    assert [r.headers.get("if-match") for r in script.requests] == [None, '"1-x"', '"1-x"']
    assert memory.set("k", 6).version == '"7-x"'
    assert memory.set("k", 6).version == '"7-x"'
    names = [r.headers.get("idempotency-key") for r in script.requests]
    assert names[0] is None
    assert names[1] == names[2]
    assert len(set(names)) == 4


def test_a_lost_answer_and_another_writer_of_the_same_value() -> None:
    for answer in (found("6", '"2-x"'), ABSENCE):
        script = Script(found("5", '"1-x"'), httpx.ReadError, UNMET, answer)
        with pytest.raises(Conflict):
            script.memory().set("k", 6, if_version='"1-x"')
    script = Script(found("5", '"1-x"'), httpx.ReadError, UNMET, ABSENCE)
    with pytest.raises(Conflict):
        script.memory().delete("k", if_version='"1-x"')


def test_a_delete_whose_answer_is_lost() -> None:
    assert Script(httpx.ReadError, DELETED).memory().delete("k") is True
    assert Script(httpx.ReadError, ABSENCE).memory().delete("k") is False
    plain = httpx.Response(404, json={"detail": "Key not found: n/k"})
    assert Script(httpx.ConnectError, plain).memory().delete("k") is False
    with pytest.raises(Unavailable, match="it may have existed"):
        Script(httpx.ReadError, plain).memory().delete("k")


def test_a_condition_is_never_sent_to_a_server_that_ignores_it() -> None:
    plain = httpx.Response(404, json={"detail": "Key not found: n/k"})
    for condition in (ABSENT, '"1-x"'):
        script = Script(plain)
        with pytest.raises(Unsupported, match="if_version needs a botwired"):
            script.memory().set("k", 1, if_version=condition)
        assert script.methods == ["GET"]


def test_a_list_that_may_lack_keys() -> None:
    body = {"namespace": "n", "count": 1, "keys": [{"key": "a", "bytes": 1, "updated_at": 1.0}]}
    script = Script(httpx.Response(200, json=body, headers={"botwired-list": "incomplete", **FROM_BOTWIRED}))
    with pytest.warns(UserWarning, match="the list of 'n' may lack keys"):
        assert script.memory().list_keys() == ["a"]


def test_the_headers() -> None:
    script = Script(STORED)
    script.memory(token="sesame").set("k", "é", wait=1.2)
    (request,) = script.requests
    assert request.headers["authorization"] == "Bearer sesame"
    assert request.headers["prefer"] == "wait=2"
    assert request.headers["user-agent"].startswith("botwired-python/")
    assert request.extensions["timeout"]["read"] == 31.2
    assert request.content == '{"value":"é"}'.encode()


def test_validation_in_fastapis_words() -> None:
    with pytest.raises(Refused, match="string_type"):
        Script(httpx.Response(422, json={"detail": [{"type": "string_type"}]})).memory().set("k", 1)


def test_errors_travel_between_processes() -> None:
    for error in (Conflict("k", '"1-x"'), Refused(507, "full"), Unavailable("away")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_base_urls(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOTWIRE_URL", raising=False)
    assert kind("n").base_url == "http://127.0.0.1:2689"
    monkeypatch.setenv("BOTWIRE_URL", "http://x:secret@botwired:2689/")
    assert kind("n").base_url == "http://botwired:2689"
    assert base64.b64encode(b"x:secret").decode() not in repr(vars(kind("n")))
    assert kind("n", base_url="https://[::1]:99/base/").base_url == "https://[::1]:99/base"
    assert repr(kind("n", "unix:///run/b.sock")) == f"{kind.__name__}('n', base_url='unix:///run/b.sock')"
    for url in ("botwire.dev", "ftp://host", "http://", "http://host?x=1", "unix://host/path", "unix:"):
        with pytest.raises(ValueError, match=r"must be|must have"):
            kind("n", base_url=url)
    with pytest.raises(ValueError, match=r"[Pp]ort"):
        kind("n", base_url="http://host:99999")
    for token in ("", "a\nb", "é"):
        with pytest.raises(ValueError, match="a token must be of printable ASCII"):
            kind("n", token=token)


def test_a_version_that_plain_botwire_has_not_given() -> None:
    """A type checker takes it as a condition, too: `written.version` of docs/python.md may be None."""
    script = Script(httpx.Response(200, json={"namespace": "n", "key": "k", "stored": True}))
    memory = script.memory()
    written = memory.set("k", 1)
    with pytest.raises(Unsupported, match="plain BotWire keeps no versions"):
        memory.set("k", 2, if_version=written.version)
    assert len(script.requests) == 1
