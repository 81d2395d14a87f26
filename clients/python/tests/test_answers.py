"""A memory takes each answer, and a lost one, as it should: scripted answers, without a server."""

from __future__ import annotations

import base64
import pickle
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from botwired import AsyncMemory, Conflict, Error, Memory, Refused, Unavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

FROM_BOTWIRED = {"cache-status": "botwired; hit"}
STORED = httpx.Response(
    200,
    json={"namespace": "n", "key": "k", "stored": True},
    headers={"botwired-write": "pending; seq=7", "etag": '"7-x"'},
)
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


CALLS: list[Callable[[Memory], Any]] = [
    lambda m: m.get("k"), lambda m: m.entry("k"), lambda m: m.set("k", 1), lambda m: m.delete("k"),
    lambda m: m.list_keys(), lambda m: m.exists("k"), lambda m: m.update("k", lambda v: v, default=1),
]  # fmt: skip
each_call = pytest.mark.parametrize("call", CALLS)


@each_call
@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError])
def test_a_lost_answer(call: Callable[[Memory], Any], error: type[httpx.TransportError]) -> None:
    script = Script(error, error, refusal(400))
    with pytest.raises(Refused):
        call(script.memory())
    assert len(script.requests) == 3


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadError])
def test_the_error_of_the_callers_client_is_the_cause(error: type[httpx.TransportError]) -> None:
    with pytest.raises(Unavailable) as raised:
        Script(error).memory(patience=0.01).get("k")
    assert type(raised.value.__cause__) is error


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
@pytest.mark.parametrize("argument", ["timeout", "patience"])
@pytest.mark.parametrize(("value", "error"), [(None, TypeError), ("5", TypeError), (-1, ValueError)])
def test_a_time_that_is_no_number_of_seconds(kind: Any, argument: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"{argument} must be a number of seconds, not {value!r}"):
        kind("n", **{argument: value})


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_an_attempt_in_no_time_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds, not 0"):
        kind("n", timeout=0)


def test_a_hasty_read_uses_up_no_other_ones_patience() -> None:
    unknown = refusal(503, "not known here, and upstream is unavailable")
    with pytest.raises(Unavailable, match="HTTP 503"):
        Script(unknown).memory(patience=0.01).get("k")
    assert Script(unknown, found("1", "x")).memory().get("k") == 1


def test_a_lost_answer_and_another_writer_of_the_same_value() -> None:
    for answer in (found("6", '"2-x"'), ABSENCE):
        script = Script(found("5", '"1-x"'), httpx.ReadError, UNMET, answer)
        with pytest.raises(Conflict):
            script.memory().set("k", 6, if_version='"1-x"')
    script = Script(found("5", '"1-x"'), httpx.ReadError, UNMET, ABSENCE)
    with pytest.raises(Conflict):
        script.memory().delete("k", if_version='"1-x"')


def test_a_list_that_may_lack_keys() -> None:
    body = {"namespace": "n", "count": 1, "keys": [{"key": "a", "bytes": 1, "updated_at": 1.0}]}
    script = Script(httpx.Response(200, json=body, headers={"botwired-list": "incomplete", **FROM_BOTWIRED}))
    with pytest.warns(UserWarning, match="the list of 'n' may lack keys"):
        assert script.memory().list_keys() == ["a"]


@pytest.mark.parametrize("page", [{}, {"entries": {}}, {"entries": [None]}, {"entries": [{"op": "put"}]}])
def test_a_page_of_keys_that_is_no_daemons(page: object) -> None:
    rows = [{"key": f"k{n}", "bytes": 1, "updated_at": 1.0} for n in range(1000)]
    full = {"namespace": "n", "count": 1000, "keys": rows}
    script = Script(httpx.Response(200, json=full, headers=FROM_BOTWIRED), httpx.Response(200, json=page))
    with pytest.raises(Error, match="not one of BotWire's"):
        script.memory().list_keys()


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
