"""The methods of Memory and AsyncMemory, on a real daemon."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from servers import Server
from texts import texts

from botwired import ABSENT, AsyncMemory, Conflict, Entry, Error, Memory, Refused, Unsupported

# Keys whose escapes, folders or lengths a client or a server on the way might treat in another way.
KEYS = [
    "user_name", ".", "..", "...", "user:42:preferences", "a/b", "/", "//", "a b", "%2F", "?", "#x", "é", "長い", "🙂",
    "a\nb", "\x00", "_.", "_.x", "__x", "_-" + "a" * 43, "x" * 128, "x" * 129, "y:" * 100, "長" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda k: ascii(k[:20]))
def test_any_key(memory: Any, key: str) -> None:
    assert memory.get(key) is None
    assert key not in memory
    memory.set(key, {"of": key})
    assert memory.get(key) == {"of": key}
    assert key in memory
    assert memory.entry(key).key == key
    assert memory.list_keys() == [key]
    assert list(memory.items()) == [(key, {"of": key})]
    assert memory.update(key, lambda v: {**v, "n": 1})["n"] == 1
    assert memory.delete(key)
    assert not memory.delete(key)
    assert memory.list_keys() == []


@given(key=texts(min_size=1, max_size=300))
@settings(max_examples=50)
def test_any_key_of_a_property(server: Server, key: str) -> None:
    with Memory("properties", base_url=server.url) as memory:
        memory.set(key, key)
        assert memory.get(key) == key
        assert memory.list_keys() == [key]
        assert memory.delete(key)


@pytest.mark.parametrize("namespace", ["user:42", "é", "..", "a/b", "n" * 65, "team.agents"])
def test_any_namespace(server: Server, kind: Any, namespace: str) -> None:
    memory = kind(namespace, base_url=server.url)
    memory.set("k", 1)
    assert memory.namespace == namespace
    assert memory.list_keys() == ["k"]
    assert memory.clear() == 1
    memory.close()


@pytest.mark.parametrize("value", ['"' * 99_000, ["a"] * 24_000, "\n", "", '{"key":"x"}\n'], ids=lambda v: str(len(v)))
def test_a_key_too_long_for_botwire_leaves_the_value_its_length(memory: Any, value: Any) -> None:
    memory.set("長" * 200, value)
    assert memory.get("長" * 200) == value
    assert memory.list_keys() == ["長" * 200]


@pytest.mark.parametrize("value", ["", "x" * 100_000, "🙂" * 100_000, "5", "[1]", '"[1]"', "\x00", "\u2028"], ids=len)
def test_texts(memory: Any, value: str) -> None:
    memory.set("k", value)
    assert memory.get("k") == value


def test_a_value_that_is_too_large(memory: Any) -> None:
    with pytest.raises(Refused, match="100") as refused:
        memory.set("k", "x" * 100_001)
    assert refused.value.status == 400
    assert not memory.exists("k")


def test_defaults(memory: Any) -> None:
    assert memory.get("k", []) == []
    assert memory.get("k", default=7) == 7
    memory.set("k", None)
    assert memory.get("k", 7) is None
    assert memory.exists("k")
    assert "k" in memory


def test_an_entry(memory: Any) -> None:
    written = memory.set("k", [1])
    entry = memory.entry("k")
    assert entry == Entry("k", [1], "[1]", written.version, entry.created_at, entry.updated_at)
    assert entry.updated_at >= entry.created_at > 1_700_000_000
    assert re.fullmatch(r'"\d+-.+"', written.version)
    assert written.seq > 0
    assert written.state == "pending"
    assert memory.entry("other") is None


def test_waiting_for_upstream(memory: Any) -> None:
    assert memory.set("k", 1, wait=10).state == "settled"
    assert memory.delete("k", wait=0.5)
    with pytest.raises(ValueError, match="wait must be a number of seconds"):
        memory.set("k", 1, wait=-1)


@pytest.mark.parametrize("timeout", [math.inf, 1e300, 2**70])
def test_a_timeout_without_an_end(kind: Any, server: Server, namespace: str, timeout: float) -> None:
    memory = kind(namespace, base_url=server.url, timeout=timeout, patience=math.inf)
    assert memory.set("k", 1).state == "pending"
    assert memory.set("k", 2, wait=1e18).state == "settled"
    assert memory.get("k") == 2
    memory.close()


def test_conditions(memory: Any) -> None:
    first = memory.set("k", 1, if_version=ABSENT)
    with pytest.raises(Conflict, match="'k' is not written") as conflict:
        memory.set("k", 2, if_version=ABSENT)
    assert conflict.value.version == first.version
    second = memory.set("k", 2, if_version=first.version)
    assert second.version != first.version
    with pytest.raises(Conflict) as conflict:
        memory.set("k", 3, if_version=first.version)
    assert conflict.value.version == second.version
    with pytest.raises(Conflict):
        memory.delete("k", if_version=first.version)
    assert memory.delete("k", if_version=second.version)
    with pytest.raises(Conflict) as conflict:
        memory.set("k", 3, if_version=second.version)
    assert conflict.value.version is None
    assert not memory.exists("k")


def test_conditions_that_are_none(memory: Any) -> None:
    with pytest.raises(Unsupported, match="if_version is None: plain BotWire keeps no versions"):
        memory.set("k", 1, if_version=None)
    with pytest.raises(Unsupported, match="if_version is None: plain BotWire keeps no versions"):
        memory.delete("k", if_version=None)
    with pytest.raises(TypeError, match="if_version must be an Entry's version or ABSENT, not 3"):
        memory.set("k", 1, if_version=3)
    for version in ('"1\r\nX: y"', '"\U0001f600"', '"é"', ' "1"'):
        with pytest.raises(TypeError, match="if_version must be an Entry's version or ABSENT"):
            memory.set("k", 1, if_version=version)
    with pytest.raises(TypeError, match="wait must be a number of seconds, not '1'"):
        memory.set("k", 1, wait="1")
    with pytest.raises(ValueError, match="there would be nothing to delete"):
        memory.delete("k", if_version=ABSENT)
    assert not memory.exists("k")


def test_update(memory: Any) -> None:
    default: list[int] = []

    def append(items: list[int]) -> list[int]:
        items.append(len(items))
        return items

    assert memory.update("k", append, default=default) == [0]
    assert memory.update("k", append, default=default) == [0, 1]
    assert default == []
    with pytest.raises(TypeError, match="must return the new value, and has returned None"):
        memory.update("k", lambda items: items.append(9))
    assert memory.get("k") == [0, 1]


def test_update_begins_again_after_another_writer(memory: Any, server: Server) -> None:
    memory.set("n", 1)
    other = Memory(memory.namespace, base_url=server.url)
    seen = []

    def change(n: int) -> int:
        seen.append(n)
        if len(seen) == 1:
            other.set("n", 10)
        return n + 1

    assert memory.update("n", change) == 11
    assert seen == [1, 10]
    other.close()


def test_updates_of_one_process_take_turns(server: Server, namespace: str) -> None:
    calls = itertools.count()

    def change(n: int) -> int:
        next(calls)
        return n + 1

    async def tasks() -> None:
        async with AsyncMemory(namespace, base_url=server.url) as memory:
            await asyncio.gather(*(memory.update("n", change) for _ in range(50)))

    with Memory(namespace, base_url=server.url) as memory, ThreadPoolExecutor(8) as pool:
        memory.set("n", 0)
        for done in [pool.submit(memory.update, "n", change) for _ in range(80)]:
            done.result(60)
        assert memory.get("n") == next(calls) == 80
        asyncio.run(tasks())
        assert memory.get("n") == next(calls) - 1 == 130


def test_an_update_within_one_of_the_same_entry_is_refused(server: Server, namespace: str) -> None:
    refusal = f"the update of '{namespace}/k' within one of '{namespace}/k' would wait for itself: make one after"
    with Memory(namespace, base_url=server.url) as memory, pytest.raises(Error, match=refusal):
        memory.update("k", lambda _: memory.update("k", lambda _: 1))

    async def task() -> None:
        async with AsyncMemory(namespace, base_url=server.url) as memory:

            async def change(_: Any) -> Any:
                return await memory.update("k", lambda _: 1)

            with pytest.raises(Error, match=refusal):
                await asyncio.wait_for(memory.update("k", change), 30)
            assert await memory.update("k", lambda _: 2) == 2

    asyncio.run(task())


@pytest.mark.parametrize("ring", ["ab", "abc"])
def test_of_updates_that_would_wait_for_each_other_one_is_refused(server: Server, namespace: str, ring: str) -> None:
    refusal = f"the update of '{namespace}/[abc]' within one of '{namespace}/[abc]' would wait for itself"
    after = dict(zip(ring, ring[1:] + ring[0], strict=True))
    with Memory(namespace, base_url=server.url) as memory, ThreadPoolExecutor(len(ring)) as pool:
        barrier = threading.Barrier(len(ring))

        def nested(key: str) -> None:
            def change(_: Any) -> int:
                barrier.wait(30)
                return int(memory.update(after[key], lambda n: n + 1, default=0))

            memory.update(key, change)

        errors = [done.exception(60) for done in [pool.submit(nested, key) for key in ring]]
        assert [re.match(refusal, str(error)) is not None for error in errors if error] == [True]
        assert memory.update("a", lambda _: "free") == "free"

    async def tasks() -> None:
        async with AsyncMemory(namespace, base_url=server.url) as memory:
            begun: set[str] = set()
            all_have_begun = asyncio.Event()

            async def nested(key: str) -> None:
                async def change(_: Any) -> int:
                    begun.add(key)
                    if len(begun) == len(ring):
                        all_have_begun.set()
                    await all_have_begun.wait()
                    return int(await memory.update(after[key], lambda _: 1))

                await memory.update(key, change)

            gathered = asyncio.gather(*map(nested, ring), return_exceptions=True)
            errors = [each for each in await asyncio.wait_for(gathered, 60) if each]
            assert [re.match(refusal, str(error)) is not None for error in errors] == [True]
            assert await memory.update("a", lambda _: "free") == "free"

    asyncio.run(tasks())


def test_updates_that_are_nested_in_one_order(server: Server, namespace: str) -> None:
    with Memory(namespace, base_url=server.url) as memory, ThreadPoolExecutor(8) as pool:

        def nested(_: int) -> None:
            memory.update("a", lambda n: n + memory.update("b", lambda _: 1), default=0)

        list(pool.map(nested, range(20)))
        assert memory.get("a") == 20


def test_update_writes_nothing_if_nothing_changes(memory: Any) -> None:
    version = memory.set("k", [1]).version
    assert memory.update("k", lambda v: v) == [1]
    assert memory.entry("k").version == version


def test_keys(memory: Any) -> None:
    for key in ["user:1", "user:2", "team:1"]:
        memory.set(key, key)
    assert memory.list_keys() == ["team:1", "user:2", "user:1"]
    assert memory.list_keys("user:") == memory.keys("user:*") == memory.list("user:") == ["user:2", "user:1"]
    assert dict(memory.items("team")) == {"team:1": "team:1"}
    assert memory.clear("user:") == 2
    assert memory.list_keys() == ["team:1"]
    assert memory.clear() == 1


def test_a_thousand_keys_and_more(server: Server, namespace: str) -> None:
    with Memory(namespace, base_url=server.url) as memory:
        for n in range(1010):
            memory.set(f"k:{n}", n)
        memory.delete("k:3")
        expected = [f"k:{n}" for n in range(1010) if n != 3]
        assert sorted(memory.list_keys()) == sorted(expected)


@pytest.mark.parametrize("argument", ["ttl", "ttl_seconds"])
def test_a_ttl_is_refused(memory: Any, kind: Any, argument: str) -> None:
    with pytest.raises(TypeError, match="there is no ttl: BotWire ignores it"):
        memory.set("k", 1, **{argument: 60})
    with pytest.raises(TypeError, match="there is no ttl"):
        kind("n", **{argument: 60})
    with pytest.raises(TypeError, match="there is no argument 'foo'"):
        memory.set("k", 1, foo=1)
    assert not memory.exists("k")


def test_event_loops_that_have_ended_leave_no_connections(server: Server, namespace: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # nobody has closed the connections
        memory = AsyncMemory(namespace, base_url=server.url)
        before = open_files()
        for _ in range(20):
            asyncio.run(memory.set("k", 1))
        assert open_files() <= before + 1
        del memory
        gc.collect()


def open_files() -> int:
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
