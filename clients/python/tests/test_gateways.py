"""Conditions through gateways that change, or drop, what they do not understand."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from botwired import ABSENT, Conflict, Error, Memory, Unavailable
from botwired._log import Log
from botwired._port import Blocking, complete
from botwired._retry import Contention
from botwired._rules import Rules, given
from botwired._steps import Answer, Call, Request, Sleep

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import Server


def _change_tag(change: Callable[[str], str]) -> Callable[[httpx.Headers], None]:
    def answer(headers: httpx.Headers) -> None:
        if "etag" in headers:
            headers["etag"] = change(headers["etag"])

    return answer


def _without(*names: str) -> Callable[[httpx.Headers], None]:
    def drop(headers: httpx.Headers) -> None:
        for name in names:
            headers.pop(name, None)

    return drop


def _as_it_is(_: httpx.Headers) -> None:
    pass


def _weak_alone(headers: httpx.Headers) -> None:
    _without("botwired-etag")(headers)
    _change_tag("W/{}".format)(headers)


class _Gateway(httpx.HTTPTransport):
    def __init__(self, request: Callable[[httpx.Headers], None], response: Callable[[httpx.Headers], None]) -> None:
        super().__init__()
        self._change_request = request
        self._change_response = response

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._change_request(request.headers)
        response = super().handle_request(request)
        self._change_response(response.headers)
        return response


GATEWAYS = {
    "weak": (_as_it_is, _change_tag("W/{}".format)),
    "a suffix": (_as_it_is, _change_tag(lambda tag: tag[:-1] + '-gzip"')),
    "no ETag": (_as_it_is, _without("etag")),
    "no conditions": (_without("if-match", "if-none-match", "idempotency-key"), _as_it_is),
    "weak, and botwired's own dropped": (
        _without("botwired-if-match", "botwired-if-none-match", "botwired-idempotency-key"),
        _weak_alone,
    ),
    "no header that it does not know": (
        _without("botwired-if-match", "botwired-if-none-match", "botwired-idempotency-key"),
        _without("botwired-etag", "botwired-write", "botwired-state", "cache-status"),
    ),
}


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_updates_through_a_gateway(gateway: str, server: Server, namespace: str) -> None:
    def count(url: str) -> None:
        with httpx.Client(transport=_Gateway(*GATEWAYS[gateway])) as http:
            memory = Memory(namespace, base_url=url, http=http)
            for _ in range(25):
                memory.update("n", increment, default=0)

    def increment(n: int) -> int:
        return n + 1

    # By two names, as two processes: those who use one name take turns.
    urls = [server.url, server.url.replace("127.0.0.1", "localhost")] * 2
    threads = [threading.Thread(target=count, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Memory(namespace, base_url=server.url).get("n") == 100


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_appends_through_a_gateway(gateway: str, server: Server, namespace: str) -> None:
    with httpx.Client(transport=_Gateway(*GATEWAYS[gateway])) as http:
        logs = [Log(Memory(namespace, base_url=server.url, http=http), "session") for _ in range(2)]
        for i in range(10):
            logs[i % 2].append([i])
        assert logs[0].read() == list(range(10))


def test_a_gateway_that_leaves_no_tag(server: Server, namespace: str) -> None:
    Memory(namespace, base_url=server.url).set("n", 1)
    Log(Memory(namespace, base_url=server.url), "log").append(["first"])
    with httpx.Client(transport=_Gateway(_as_it_is, _without("etag", "botwired-etag"))) as http:
        memory = Memory(namespace, base_url=server.url, http=http)
        with pytest.raises(Error, match=r"a gateway on the way drops"):
            memory.update("n", lambda n: n + 1)
        log = Log(Memory(namespace, base_url=server.url, http=http), "log")
        assert log.read() == ["first"]
        for change in (lambda: log.append(["m"]), log.pop, log.clear, lambda: log.update(lambda items: items.clear())):
            with pytest.raises(Error, match=r"a gateway on the way drops"):
                change()
        assert log.read() == ["first"]
        assert memory.get("n") == 1
        memory.set("n", 2)


def test_a_gateway_that_changes_conditions(server: Server, namespace: str) -> None:
    def garble(headers: httpx.Headers) -> None:
        for name in ("if-match", "botwired-if-match"):
            if name in headers:
                headers[name] = '"another"'

    Memory(namespace, base_url=server.url).set("n", 1)
    with (
        httpx.Client(transport=_Gateway(garble, _as_it_is)) as http,
        pytest.raises(Error, match=r"still has the version .*a gateway on the way changes"),
    ):
        Memory(namespace, base_url=server.url, http=http).update("n", lambda n: n + 1)


def test_an_update_that_others_are_always_faster_with_pauses_and_ends() -> None:
    steps = Rules("n", 0.05, "here", "").update("k", lambda n: n + 1, None)
    pauses = []
    step = next(steps)
    with pytest.raises(Unavailable, match="others have written it each time"):
        for version in range(10_000):
            assert isinstance(step, Request)
            step = steps.send(_found(version))
            assert isinstance(step, Call)
            put = steps.send(version + 1)
            assert isinstance(put, Request)
            assert put.headers["botwired-if-match"] == put.headers["if-match"] == f'"{version}"'
            steps.send(Answer(412, {}, b'{"detail":"the entry is not as If-Match names it"}'))
            step = steps.send(_found(version + 1))
            assert isinstance(step, Sleep)
            pauses.append(step.seconds)
            time.sleep(step.seconds)
            step = steps.send(None)
    assert 2 < len(pauses) < 1000


def _found(version: int) -> Answer:
    body = b'{"namespace":"n","key":"k","value":"%d","created_at":1,"updated_at":1}' % version
    return Answer(200, {"etag": f'"{version}"', "cache-status": "botwired; hit"}, body)


def test_conflicts_of_an_adapter_pause_longer_each_time() -> None:
    contention = Contention("k", 30)
    longest = [max(contention.pause_after(Conflict("x")) for _ in range(8)) for _ in range(4)]
    assert 0 < longest[0] < 0.6
    assert longest[-1] <= 1
    with pytest.raises(Unavailable, match="a gateway on the way"):
        Contention("k", 0).pause_after(Conflict("x"))


def test_a_conflict_long_after_another_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    contentions = Blocking(Memory("n"))._contentions
    for key in ("one", "other"):  # somebody gives up after a conflict
        assert contentions.pause_after(key, Conflict("x")) < 0.1
    now += 60
    assert contentions.pause_after("one", Conflict("x")) < 0.1
    assert list(contentions._of) == ["one"]


def test_a_port_forgets_a_contention_that_is_won(server: Server, namespace: str) -> None:
    port = Blocking(Memory(namespace, base_url=server.url))
    port._contentions.pause_after("k", Conflict("x"))
    assert port._contentions._of
    complete(port.swap("k", 1, ABSENT))
    assert not port._contentions._of
    port._contentions.pause_after("k", Conflict("x"))
    complete(port.delete("k"))
    assert not port._contentions._of
    assert given("a", "b") == {"a": "b", "botwired-a": "b"}
