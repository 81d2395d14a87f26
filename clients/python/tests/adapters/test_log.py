from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import Server

from botwired import AsyncMemory, Error, Memory, Refused, Unavailable
from botwired._log import AsyncLog, Log
from botwired._rules import Rules


def test_a_log_does_what_a_list_does(memory: Memory) -> None:
    random.seed(7)
    log, want = Log(memory, "a list", segment_chars=60), list[Any]()
    for number in range(120):
        match random.choice(["append", "append", "append", "pop", "replace", "clear", "again"]):
            case "append":
                values = [{"n": number}, "x" * random.randrange(30), None][: random.randrange(4)]
                log.append(values)
                want += values
            case "pop":
                assert log.pop() == (want.pop() if want else None)
            case "replace" if number % 3 == 0:
                values = list(range(random.randrange(40)))
                log.replace(values)
                want = list(values)
            case "clear" if number % 4 == 0:
                log.clear()
                want = []
            case "again":
                log = Log(memory, "a list", segment_chars=60)
        limit = random.randrange(20)
        assert log.read(limit) == (want[-limit:] if limit else [])
        assert log.read() == want
    log.clear()
    assert memory.list_keys() == []


async def test_an_async_log_does_the_same(async_memory: AsyncMemory) -> None:
    log = AsyncLog(async_memory, "a list", segment_chars=40)
    for number in range(20):
        await log.append([number, "text"])
    assert await log.pop() == "text"
    assert await log.read(3) == ["text", 18, "text", 19][1:]
    await log.replace(["new"])
    assert await log.read() == ["new"]
    await log.clear()
    assert await log.read() == []
    assert await async_memory.list_keys() == []


def test_a_log_passes_no_value_of_100000_characters(memory: Memory) -> None:
    items = ["a" * 250_000, {"text": '"' * 59_990}, "é" * 100_000, {"k": "b" * 59_000}, {"k": "c" * 59_000}, "short"]
    log = Log(memory, "long")
    log.append(items[:2])
    for item in items[2:]:
        log.append([item])
    assert Log(memory, "long").read() == items
    assert [log.pop() for _ in items] == items[::-1]
    assert log.read() == []
    log.append(items)
    log.clear()
    assert memory.list_keys() == []


def test_an_item_that_is_no_json_leaves_the_log_as_it_was(memory: Memory) -> None:
    log = Log(memory, "refuses")
    log.append([1])
    for wrong in (float("nan"), b"bytes", {1: 2}):
        with pytest.raises((TypeError, ValueError)):
            log.append([2, wrong])
    assert log.read() == [1]


def test_items_are_copies(memory: Memory) -> None:
    log, item = Log(memory, "copies"), {"n": 1}
    log.append([item])
    item["n"] = 2
    log.append([3])
    assert log.read() == [{"n": 1}, 3]
    log.read()[0]["n"] = 4
    assert log.read() == [{"n": 1}, 3]


def test_a_list_of_another_client_is_the_beginning(memory: Memory) -> None:
    first = [{"n": n, "text": "x" * 50} for n in range(1_000)]
    memory.set("mine", first)
    log = Log(memory, "mine")
    assert log.read() == first
    assert log.read(2) == first[-2:]
    log.append(["more"])
    assert log.read() == [*first, "more"]
    memory.set("popped", first)
    assert Log(memory, "popped").pop() == first[-1]
    assert Log(memory, "popped").read() == first[:-1]


def test_a_value_that_is_no_log_stays(memory: Memory) -> None:
    memory.set("other", "a text")
    log = Log(memory, "other")
    with pytest.raises(Error, match="something else than a log"):
        log.append([1])
    with pytest.raises(Error, match="something else than a log"):
        log.clear()
    assert memory.get("other") == "a text"
    for wrong in [{}, {"items": 5}, {"items": [1], "before": "x"}, {"items": [], "before": 0, "split": {"0": ["p"]}}]:
        memory.set("other", {"botwired": "log", "write": "w", **wrong})
        with pytest.raises(Error, match="something else than a log"):
            log.read()


@pytest.mark.parametrize("part", ["a text", {"items": ["x"]}, {"items": ["x"], "before": 7, "previous": "a"}])
def test_a_segment_that_is_none_is_refused_and_can_be_cleared(memory: Memory, part: Any) -> None:
    """The last one is its own predecessor: a reader would go round for ever."""
    memory.set("a list", {"botwired": "log", "write": "w", "before": 7, "items": [8], "previous": "a"})
    memory.set("a list.a", part)
    log = Log(memory, "a list")
    with pytest.raises(Error, match="something else than a part of the log"):
        log.read()
    assert log.read(1) == [8]
    log.clear()
    assert memory.list_keys() == []


def test_parts_that_are_no_json_together_are_no_item(memory: Memory) -> None:
    memory.set("a list", {"botwired": "log", "write": "w", "before": 0, "items": [None], "split": {"0": ["p"]}})
    memory.set("a list.p", '="cut of')
    with pytest.raises(Error, match="are no JSON together"):
        Log(memory, "a list").read()


def test_concurrent_appenders_lose_nothing(daemon: Server, namespace: str) -> None:
    writers, each = 8, 25

    def work(writer: int) -> None:
        with Memory(namespace, daemon.url) as memory:
            log = Log(memory, "shared", segment_chars=200)
            for number in range(each):
                log.append([[writer, number]])

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(work, range(writers)))
    with Memory(namespace, daemon.url) as memory:
        got = Log(memory, "shared").read()
        assert sorted(got) == [[writer, number] for writer in range(writers) for number in range(each)]
        for writer in range(writers):
            assert [number for who, number in got if who == writer] == list(range(each))
        keys = set(memory.list_keys())
        Log(memory, "shared").clear()
        assert memory.list_keys() == [], f"of {len(keys)} keys, some are left that nothing names"


def test_readers_see_all_of_a_change_or_nothing(daemon: Server, namespace: str) -> None:
    """A batch is 5 items, a pop follows each, and now and then the log is emptied."""

    def read(_: int) -> list[list[Any]]:
        with Memory(namespace, daemon.url) as memory:
            log = Log(memory, "shared", segment_chars=100)
            return [log.read() for _ in range(60)]

    def write() -> None:
        with Memory(namespace, daemon.url) as memory:
            log = Log(memory, "shared", segment_chars=100)
            for number in range(60):
                log.append([[number, part] for part in range(5)])
                if number % 10 == 9:
                    log.clear()

    with ThreadPoolExecutor(3) as pool:
        writer = pool.submit(write)
        for seen in pool.map(read, range(2)):
            for items in seen:
                numbers = [n for n, _ in items[::5]]
                assert items == [[n, part] for n in numbers for part in range(5)]
                assert numbers == list(range(numbers[0], numbers[0] + len(numbers)) if numbers else [])
                assert not numbers or numbers[0] % 10 == 0, "items of before a clear"
        writer.result()


async def test_async_appenders_lose_nothing(daemon: Server, namespace: str) -> None:
    async with AsyncMemory(namespace, daemon.url) as memory:
        log = AsyncLog(memory, "shared", segment_chars=200)
        await asyncio.gather(*(log.append([number]) for number in range(60)))
        assert sorted(await log.read()) == list(range(60))


def test_a_killed_clear_is_finished_by_the_next(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(memory, "cleared", segment_chars=40)
    log.append([{"old": number} for number in range(30)])
    with monkeypatch.context() as patched:
        patched.setattr(Memory, "delete", kill)
        with pytest.raises(KeyboardInterrupt):
            log.clear()
    assert Log(memory, "cleared").read() == []
    Log(memory, "cleared", segment_chars=40).append(["new"])
    assert Log(memory, "cleared").read() == ["new"]
    Log(memory, "cleared").clear()
    assert memory.list_keys() == []


def kill(*_: Any, **__: Any) -> bool:
    raise KeyboardInterrupt


def test_a_change_that_is_made_is_no_error(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full journal may refuse to delete what the change has left: the next change deletes it."""
    log = Log(memory, "full", segment_chars=40)
    log.append([*range(30), "x" * 80_000])
    with monkeypatch.context() as patched:
        patched.setattr(Memory, "delete", refuse)
        assert [log.pop() for _ in range(20)] == ["x" * 80_000, *range(29, 10, -1)]
        log.replace(["only"])
        assert log.read() == ["only"]
        log.append(["y" * 80_000])
        assert log.update(lambda items: items.pop()) == ["only", "y" * 80_000]
    log.append(["new"])
    assert Log(memory, "full").read() == ["only", "new"]
    log.clear()
    assert memory.list_keys() == []


def test_a_log_is_cleared_when_nothing_of_it_is_left(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(memory, "full", segment_chars=40)
    log.append([*range(30), "x" * 80_000])
    with monkeypatch.context() as patched:
        patched.setattr(Memory, "delete", refuse)
        with pytest.raises(Refused):
            log.clear()
        assert log.read() == []
    log.clear()
    assert memory.list_keys() == []


def refuse(*_: Any, **__: Any) -> bool:
    raise Refused(507, "the disk is full")


def test_a_lost_segment_is_said_and_can_be_cleared(memory: Memory) -> None:
    log = Log(memory, "broken", segment_chars=40)
    log.append(list(range(100)))
    for key in memory.list_keys("broken."):
        memory.delete(key)
    with pytest.raises(Error, match="'broken' has lost a part"):
        Log(memory, "broken").read()
    Log(memory, "broken").clear()
    assert Log(memory, "broken").read() == []


def test_nothing_stays_of_an_update_in_conflict(daemon: Server, namespace: str) -> None:
    memory, numbers = Memory(namespace, base_url=daemon.url), iter(range(10))
    other = Memory(namespace, base_url=daemon.url.replace("127.0.0.1", "localhost"))  # as another process
    log = Log(memory, "updated")
    log.append([0])

    def change(items: list[Any]) -> None:
        if (number := next(numbers)) < 3:
            Log(other, "updated").append([number])
        items.append("x" * 80_000)

    log.update(change)
    assert len(log.read()) == 5
    log.clear()
    assert memory.list_keys() == []
    other.close()
    memory.close()


def test_equal_items_of_two_appenders_are_two(daemon: Server, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loser's retry must not take the winner's head for its own."""
    elsewhere = daemon.url.replace("127.0.0.1", "localhost")  # by another name, as another process would have no turn
    with Memory(namespace, daemon.url) as memory, Memory(namespace, elsewhere) as other:
        first, second = Log(memory, "same"), Log(other, "same")
        first.append(["x"])
        swap_once, stored = Rules.swap, list[str]()

        def overtaken(self: Rules, key: str, *arguments: Any) -> Any:
            if not stored:
                stored.append(key)
                second.append(["y"])
                second.pop()
                second.append(["x"])
            return swap_once(self, key, *arguments)

        monkeypatch.setattr(Rules, "swap", overtaken)
        first.append(["x"])
        monkeypatch.undo()
        assert first.read() == ["x", "x", "x"]


def test_bad_arguments() -> None:
    with Memory("nowhere", "http://127.0.0.1:9") as memory:
        with pytest.raises(ValueError, match="segment_chars is 0: it must be from 1 to 60000"):
            Log(memory, "log", segment_chars=0)
        with pytest.raises(ValueError, match="limit is -1: it must be 0 or more"):
            Log(memory, "log").read(-1)


def test_two_objects_of_one_log_take_turns(daemon: Server, namespace: str) -> None:
    with Memory(namespace, daemon.url) as memory:
        one, two = Log(memory, "shared"), Log(memory, "shared")
        for number in range(10):
            (one if number % 2 else two).append([number])
        assert one.read() == list(range(10))
        two.clear()
        one.append(["after"])
        assert two.read() == ["after"]


def test_appends_to_one_log_fail_together_where_the_daemon_has_gone(
    own_daemon: Callable[[], Server], namespace: str
) -> None:
    """A log's first request in a turn is a write where it knows the head, and a read where it does not."""
    daemon = own_daemon()
    with Memory(namespace, daemon.url, patience=1) as memory, ThreadPoolExecutor(10) as pool:
        known = Log(memory, "a list")
        known.append([1])
        daemon.kill()
        for logs in [[known] * 10, [Log(memory, "a list") for _ in range(10)]]:
            began = time.monotonic()
            done = [pool.submit(log.append, [2]) for log in logs]
            assert {type(each.exception(60)) for each in done} == {Unavailable}
            assert time.monotonic() - began < 5
    daemon.start()
