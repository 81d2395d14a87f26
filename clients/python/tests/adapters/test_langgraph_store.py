from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import Server
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from botwired import AsyncMemory, Error, Memory
from botwired.langgraph import Store

NAMESPACES = [
    ("users",),
    ("users", "42"),
    ("users", "42", "notes"),
    ("users", "4"),
    ("docs", "é/~1"),
    ("docs", "~", "v1"),
]
KEYS = ["a", "b/c", "~1", "ü", "k" * 200, "_.x"]
FILTERS: list[dict[str, Any] | None] = [
    None, {}, {"n": 1}, {"n": {"$gt": 2}}, {"n": {"$gte": 1, "$lt": 4}}, {"n": {"$ne": 3}}, {"n": {"$lte": 1}},
    {"deep": {"tag": "x"}}, {"list": [1, 2]}, {"n": {"$eq": 2}, "deep": {"tag": "y"}}, {"missing": None},
]  # fmt: skip


def same(items: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((item.namespace, item.key, str(item.value)) for item in items)


def test_it_does_what_the_store_in_memory_does(memory: Memory) -> None:
    random.seed(3)
    want, got = InMemoryStore(), Store(memory)
    for _ in range(60):
        namespace, key = random.choice(NAMESPACES), random.choice(KEYS)
        value = {"n": random.randrange(5), "deep": {"tag": random.choice("xy")}, "list": [1, random.randrange(3)]}
        for store in (want, got):
            if value["n"]:
                store.put(namespace, key, value)
            else:
                store.delete(namespace, key)
        namespace, key = random.choice(NAMESPACES), random.choice(KEYS)
        one, other = want.get(namespace, key), got.get(namespace, key)
        assert (one and one.value) == (other and other.value)
        prefix = random.choice([*NAMESPACES, (), ("docs",)])
        condition = random.choice(FILTERS)
        found = got.search(prefix, filter=condition, limit=1000)
        assert same(found) == same(want.search(prefix, filter=condition, limit=1000)), (prefix, condition)
    # A namespace is there as long as it has items; that of the store in memory stays for good.
    for namespace in want.list_namespaces(limit=100):
        if not want.search(namespace, limit=1):
            del want._data[namespace]
    for options in (
        {}, {"prefix": ("users",)}, {"suffix": ("notes",)}, {"prefix": ("*", "42")}, {"suffix": ("*", "v1")},
        {"max_depth": 1},
        {"prefix": ("users",), "suffix": ("42",)}, {"limit": 2, "offset": 1}, {"prefix": ("nowhere",)},
    ):  # fmt: skip
        assert got.list_namespaces(**options) == want.list_namespaces(**options), options  # type: ignore[arg-type]


def test_pages_go_from_the_latest_to_the_earliest(plain: Server, namespace: str) -> None:
    with Memory(namespace, plain.url) as memory:
        store = Store(memory)
        for number in range(10):
            store.put(("a", str(number % 2)), str(number), {"even": number % 2 == 0})
        numbers = [int(item.key) for offset in range(0, 12, 3) for item in store.search(("a",), limit=3, offset=offset)]
        assert numbers == list(range(9, -1, -1))
        found = store.search(("a",), filter={"even": True}, limit=2, offset=1)
        assert [int(item.key) for item in found] == [6, 4]


def test_a_batch_reads_first_and_writes_the_last(memory: Memory) -> None:
    store = Store(memory)
    store.put(("a",), "k", {"n": 0})
    ops: list[Any] = [
        PutOp(("a",), "k", {"n": 1}),
        GetOp(("a",), "k"),
        PutOp(("a",), "k", {"n": 2}),
        SearchOp(("a",)),
        ListNamespacesOp(),
    ]
    results = store.batch(ops)
    assert [type(result).__name__ for result in results] == ["NoneType", "Item", "NoneType", "list", "list"]
    assert results[1].value == {"n": 0}  # type: ignore[union-attr]
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value == {"n": 2}
    assert item.created_at <= item.updated_at
    assert item.created_at.tzinfo is not None


async def test_the_asynchronous_methods(memory: Memory, async_memory: AsyncMemory) -> None:
    for store in (Store(memory), Store(async_memory)):
        await store.aput(("users", "42"), "prefs", {"tea": True})
        item = await store.aget(("users", "42"), "prefs")
        assert item is not None
        assert item.value == {"tea": True}
        assert [item.key for item in await store.asearch(("users",), filter={"tea": True})] == ["prefs"]
        assert await store.alist_namespaces() == [("users", "42")]
        await store.adelete(("users", "42"), "prefs")
        assert await store.aget(("users", "42"), "prefs") is None


def test_what_the_store_does_not_have_is_refused_in_words(memory: Memory) -> None:
    store = Store(memory)
    with pytest.raises(NotImplementedError, match="TTL is not supported"):
        store.put(("a",), "k", {}, ttl=5)
    with pytest.raises(NotImplementedError, match="no ttl: BotWire keeps values for good"):
        store.batch([PutOp(("a",), "k", {}, ttl=5)])
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(ValueError, match=r"no operator of filters: '\$in'. There are"):
        store.search(("a",), filter={"n": {"$in": [1]}})
    with pytest.raises(ValueError, match="limit and offset must be 0 or more, not -1 and 0"):
        store.search(("a",), limit=-1)
    with pytest.raises(TypeError, match="a value must be JSON"):
        store.put(("a",), "k", {"bytes": b""})
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value == {"n": 1}


def test_a_query_lists_the_items_and_warns_once(memory: Memory) -> None:
    store = Store(memory)
    for n in range(3):
        store.put(("facts",), str(n), {"n": n})
    with pytest.warns(UserWarning, match="no vectors to compare a query with") as warned:
        found = [store.search(("facts",), query="what does the user like?", limit=2) for _ in range(2)]
    assert [[item.value["n"] for item in items] for items in found] == [[2, 1], [2, 1]]
    assert len(warned) == 1


def test_an_item_may_be_longer_than_a_value(memory: Memory) -> None:
    store, long = Store(memory), {"text": "é" * 150_000, "half": "\ud83d" * 50_000}
    for value in (long, {"n": 1}, long, {"botwired": "parts", "parts": ["x"]}):
        store.put(("files",), "a", value)
        item = Store(memory).get(("files",), "a")
        assert item is not None
        assert item.value == value
    store.put(("files",), "b", long)
    assert [item.value for item in store.search((), filter={"half": long["half"]})] == [long]
    assert store.list_namespaces() == [("files",)]
    for key in "ab":
        store.delete(("files",), key)
    assert memory.list_keys() == []


def test_an_item_whose_part_is_lost_can_be_written_anew_and_deleted(memory: Memory) -> None:
    store = Store(memory)
    for replace in (lambda: store.put(("docs",), "k", {"n": 1}), lambda: store.delete(("docs",), "k")):
        store.put(("docs",), "k", {"text": "x" * 200_000})
        memory.delete(next(key for key in memory.list_keys() if "~parts" in key))
        with pytest.raises(Error, match="parts of the value of 'store/docs/k' are missing"):
            store.get(("docs",), "k")
        replace()
        assert not [key for key in memory.list_keys() if "~parts" in key]
    assert store.get(("docs",), "k") is None


def test_more_items_than_botwire_lists(daemon: Server, namespace: str) -> None:
    with Memory(namespace, daemon.url) as memory:
        store = Store(memory)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: store.put(("many", str(n % 7)), str(n), {"n": n}), range(1_010)))
        found = store.search(("many",), filter={"n": {"$lt": 5}}, limit=100)
        assert sorted(item.value["n"] for item in found) == [0, 1, 2, 3, 4]
        assert len(store.list_namespaces(prefix=("many",))) == 7
