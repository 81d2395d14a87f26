"""Holds the package to clients/rules.json, as the one for JavaScript is held to it. Time passes only in pauses,
and where an answer takes some."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import botwired
from botwired import ABSENT, AsyncMemory, Memory
from botwired._retry import Failure
from botwired._turns import for_thread

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = json.loads((Path(__file__).parents[2] / "rules.json").read_text(encoding="utf-8"))
ANSWERS: dict[str, Any] = RULES["answers"]
URL = "http://127.0.0.1:4"

CALLS: dict[str, Callable[..., Any]] = {
    "get": lambda m: m.get("k"),
    "set": lambda m, **options: m.set("k", 6, **options),
    "delete": lambda m, **options: m.delete("k", **options),
    "keys": lambda m: m.keys(),
    "update": lambda m: m.update("k", lambda n: n + 1, default=0),
    "undo": lambda m: m.undo("k"),
}


class Clock:
    """A clock that nothing else moves. It keeps the pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(0)  # the other tasks begin
        self.sleep(seconds)


class Script:
    """Answers of a server in turn, and the last one for ever."""

    answers: list[str]
    requests: list[httpx.Request]

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = ANSWERS[self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]
        self._clock.now += answer.get("after", 0)
        if lost := answer.get("lost"):
            raise (httpx.ConnectError if lost == "before it was sent" else httpx.ReadError)(lost)
        content = answer["text"] if "text" in answer else json.dumps(answer["body"])
        return httpx.Response(answer["status"], headers=answer["headers"], text=content)


class Awaited:
    """An AsyncMemory on a script, whose methods are called as a Memory's are."""

    def __init__(self, script: Script) -> None:
        self._memory = AsyncMemory("n", URL, http=httpx.AsyncClient(transport=httpx.MockTransport(script)))

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._memory, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return asyncio.run(attribute(*arguments, **named))

        return call if callable(attribute) else attribute


def blocking(script: Script) -> Memory:
    return Memory("n", URL, http=httpx.Client(transport=httpx.MockTransport(script)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("botwired._retry.time", SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr("botwired._sync.time", SimpleNamespace(sleep=clock.sleep))
    monkeypatch.setattr("botwired._async.asyncio", SimpleNamespace(sleep=clock.sleep_async))
    return clock


@pytest.mark.parametrize("make", [blocking, Awaited], ids=["sync", "async"])
@pytest.mark.parametrize("case", RULES["cases"], ids=lambda case: case["name"])
def test_the_rules(case: dict[str, Any], make: Callable[[Script], Any], clock: Clock) -> None:
    script, pauses = Script(clock), clock.pauses
    memory = make(script)
    writes: dict[int, str] = {}
    for wanted in case["calls"]:
        script.answers, script.requests = list(wanted["answers"]), []
        pauses.clear()
        check_outcome(memory, wanted)
        if wanted["requests"] is not None:
            check_requests(script.requests, wanted["requests"], writes)
        if "waited" in wanted:
            assert sum(pauses) == pytest.approx(wanted["waited"])
        if "pauses" in wanted:
            assert len(pauses) == len(wanted["pauses"])
            for pause, (least, most) in zip(pauses, wanted["pauses"], strict=True):
                assert least - 1e-9 <= pause <= most + 1e-9
        if "state" in wanted:
            assert memory.state == wanted["state"]


def check_outcome(memory: Any, wanted: dict[str, Any]) -> None:
    options: dict[str, Any] = {"wait": wanted["wait"]} if "wait" in wanted else {}
    if "if_version" in wanted:
        options["if_version"] = ABSENT if wanted["if_version"] == "ABSENT" else wanted["if_version"]
    if "error" not in wanted:
        result = CALLS[wanted["call"]](memory, **options)
        if "result" in wanted:
            shown = {"set": "version", "undo": "value"}.get(wanted["call"])
            assert (getattr(result, shown) if shown else result) == wanted["result"]
        return
    kind = getattr(botwired, wanted["error"]["type"])
    with pytest.raises(kind) as error:
        CALLS[wanted["call"]](memory, **options)
    assert type(error.value) is kind
    for words in wanted["error"]["says"]:
        assert words.replace("URL", URL) in str(error.value)


def check_requests(requests: list[httpx.Request], wanted: list[Any], writes: dict[int, str]) -> None:
    rows = [each if isinstance(each, dict) else {"method": each} for each in wanted]
    assert [request.method for request in requests] == [row["method"] for row in rows]
    for request, row in zip(requests, rows, strict=True):
        name = request.headers.get("idempotency-key")
        assert (name is None) == (request.method not in ("PUT", "DELETE"))
        assert request.headers.get("botwired-idempotency-key") == name
        for header, value in row.get("headers", {}).items():
            assert request.headers.get(header) == value
        if "write" in row:
            assert row["write"] in writes or name not in writes.values()
            assert writes.setdefault(row["write"], str(name)) == name


async def fifty_updates(memory: AsyncMemory, change: Callable[[int], int]) -> list[Any]:
    return await asyncio.gather(*(memory.update("k", change) for _ in range(50)), return_exceptions=True)


def async_memory(script: Script) -> AsyncMemory:
    return AsyncMemory("n", URL, http=httpx.AsyncClient(transport=httpx.MockTransport(script)))


def test_each_of_50_updates_has_the_whole_patience_since_the_daemons_newest_answer(clock: Clock) -> None:
    script = Script(clock)
    script.requests, script.answers = [], ["busy", "found 5", "cut off", "stored"] * 50

    def change(n: int) -> int:
        clock.now += 1
        return n + 1

    assert asyncio.run(fifty_updates(async_memory(script), change)) == [6] * 50
    assert clock.now > 50


def test_an_update_behind_one_that_takes_long_and_changes_nothing_has_the_whole_patience(clock: Clock) -> None:
    async def run() -> list[Any]:
        script = Script(clock)
        memory = async_memory(script)
        script.requests, script.answers = [], ["found 5", "not connected", "found 5", "stored"]

        async def slow(n: int) -> int:
            await asyncio.get_running_loop().create_task(let_others_ask())
            clock.now += 40
            return n

        return list(await asyncio.gather(memory.update("k", slow), memory.update("k", lambda n: n + 1)))

    async def let_others_ask() -> None:
        pass

    assert asyncio.run(run()) == [5, 6]


def test_50_updates_fail_together_where_the_daemon_hangs(clock: Clock) -> None:
    async def run() -> None:
        script = Script(clock)
        memory = async_memory(script)
        script.requests, script.answers = [], ["not connected", "cut off after 40 s"]
        assert {type(error) for error in await fifty_updates(memory, lambda n: n + 1)} == {botwired.Unavailable}
        assert clock.now < 41
        script.answers = ["found 5", "stored"]
        assert await memory.update("k", lambda n: n + 1) == 6

    asyncio.run(run())


@pytest.mark.parametrize("answer", ["not connected", "busy"])
def test_50_updates_fail_together_where_no_daemon_answers(clock: Clock, answer: str) -> None:
    async def run() -> list[Any]:
        script = Script(clock)
        memory = async_memory(script)
        script.requests, script.answers = [], ["found 5"]
        await memory.get("k")
        script.answers = [answer]
        return await fifty_updates(memory, lambda n: n + 1)

    assert {type(error) for error in asyncio.run(run())} == {botwired.Unavailable}
    assert clock.now == pytest.approx(30)


def test_50_updates_fail_together_and_at_once_where_no_daemon_is(clock: Clock) -> None:
    script = Script(clock)
    script.requests, script.answers = [], ["not connected"]
    failed = asyncio.run(fifty_updates(async_memory(script), lambda n: n + 1))
    assert {type(error) for error in failed} == {botwired.Unavailable}
    assert all(str(error).startswith("there is no botwired at") for error in failed)
    assert clock.now == pytest.approx(0.5)


def test_an_update_behind_one_that_is_durable_and_not_confirmed_has_its_own_patience(clock: Clock) -> None:
    async def run() -> list[Any]:
        script = Script(clock)
        memory = async_memory(script)
        script.requests, script.answers = [], ["found 5", *["not confirmed"] * 11, "found 6", "stored"]
        calls = [memory.update("k", lambda n: n + 1) for _ in range(2)]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    first, second = asyncio.run(run())
    assert "the write is durable in the daemon, and pending" in str(first)
    assert second == 7


def test_an_update_behind_a_hastier_one_that_fails_has_what_is_left_of_its_own_patience(clock: Clock) -> None:
    async def run() -> list[Any]:
        script = Script(clock)
        http = httpx.AsyncClient(transport=httpx.MockTransport(script))
        hasty, patient = (AsyncMemory("n", URL, http=http, patience=patience) for patience in (5, 30))
        script.requests, script.answers = [], ["found 5"]

        async def slow(n: int) -> int:
            await asyncio.sleep(0)  # the other one asks
            clock.now += 40
            script.answers = ["busy"]
            return n + 1

        calls = [hasty.update("k", slow), patient.update("k", lambda n: n + 1)]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    assert [type(error) for error in asyncio.run(run())] == [botwired.Unavailable] * 2
    assert clock.now == pytest.approx(70)


@pytest.mark.parametrize("since", ["a while", "an answer"])
def test_an_update_behind_one_that_takes_long_has_the_whole_patience_if_another_call_has_failed(
    clock: Clock, since: str
) -> None:
    async def run() -> list[Any]:
        script = Script(clock)
        memory = async_memory(script)
        script.requests, script.answers = [], ["found 5"]

        async def slow(n: int) -> int:
            script.answers = ["cut off"]
            with pytest.raises(botwired.Unavailable):
                await memory.get("k")
            script.answers = ["found 5"]
            if since == "a while":
                clock.now += 2
            else:
                await memory.get("k")
            script.answers = ["busy", "found 5", "stored"]
            return n

        return list(await asyncio.gather(memory.update("k", slow), memory.update("k", lambda n: n + 1)))

    assert asyncio.run(run()) == [5, 6]


def test_the_patience_of_a_thread_that_waits_for_its_turn_counts_from_its_call(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, is_called = Script(clock), threading.Event()
    memory = blocking(script)
    script.requests, script.answers = [], ["found 5"]
    memory.get("k")
    script.answers = ["not connected"]

    def monotonic() -> float:
        is_called.set()
        return clock.now

    monkeypatch.setattr("botwired._retry.time", SimpleNamespace(monotonic=monotonic))
    with ThreadPoolExecutor(1) as pool:
        with for_thread((URL, "n", "k")):
            memory._rules._contact.failure = Failure(clock.now, clock.now + 30, botwired.Unavailable("of another"))
            done = pool.submit(memory.update, "k", lambda n: n + 1)
            assert is_called.wait(30)
            clock.now += 30
        assert type(done.exception(30)) is botwired.Unavailable
    assert clock.pauses == []
