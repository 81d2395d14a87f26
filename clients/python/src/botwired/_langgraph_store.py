"""LangGraph's BaseStore. An item is an entry ``store/NAMESPACE/…/KEY``, as BotWire lists no namespaces.

The parts of an item that is too long for an entry are entries ``store~parts/NAME``, below no namespace.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from typing_extensions import override

from botwired import AsyncMemory, Memory
from botwired._parts import Document, Documents
from botwired._paths import join, split
from botwired._port import Port, Runner

ROOT = "store"
PARTS = ROOT + "~parts/"  # no path begins so: a ~ in a label is escaped

# CHUNK is how many items a search with a filter reads at a time.
CHUNK = 64


class Store(BaseStore):
    """Items of any namespaces and keys, whose values are dicts of JSON.

    A search reads the items below the namespace, the latest written first, and compares them with the filter. It has no
    vectors: it lists the same with a query, and warns once. As BotWire keeps values for good, a ttl is refused. An item
    may be longer than a value: it is kept in parts then. Without a daemon, searches see the latest 1,000 keys.
    """

    def __init__(self, memory: Memory | AsyncMemory) -> None:
        super().__init__()
        self._runner = Runner(memory)
        self._rules = _Rules(self._runner.port)

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._runner.run(self._rules.batch(list(ops)))

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._runner.arun(self._rules.batch(list(ops)))


class _Rules:
    def __init__(self, port: Port) -> None:
        self._port = port
        self._documents = Documents(port, lambda name: PARTS + name)
        self._has_warned = False

    async def batch(self, ops: Sequence[Op]) -> list[Result]:
        """Answer the reads, and then write: of several writes of one item, the last."""
        for op in ops:
            _check(op)
        gets = [_key(op.namespace, op.key) for op in ops if isinstance(op, GetOp)]
        found = dict(zip(gets, await self._documents.load_all(gets), strict=True))
        results: list[Result] = []
        writes: dict[str, PutOp] = {}
        for op in ops:
            result: Result = None
            if isinstance(op, GetOp):
                result = _item(Item, op.namespace, op.key, found[_key(op.namespace, op.key)])
            elif isinstance(op, SearchOp):
                result = await self._search(op)
            elif isinstance(op, ListNamespacesOp):
                result = await self._list_namespaces(op)
            else:
                writes[_key(op.namespace, op.key)] = op
            results.append(result)
        for key, put in writes.items():
            if put.value is None:
                await self._documents.remove(key)
            else:
                await self._documents.put(key, dict(put.value))
        return results

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.query and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "botwired's store has no vectors to compare a query with: a search lists the items, the latest first",
                stacklevel=2,
            )
        paths = await self._paths(op.namespace_prefix)
        end = op.offset + op.limit
        if not op.filter:
            return await self._read(paths[op.offset : end])
        found: list[SearchItem] = []
        for start in range(0, len(paths), CHUNK):
            if len(found) >= end:
                break
            items = await self._read(paths[start : start + CHUNK])
            found += [item for item in items if _matches(item.value, op.filter)]
        return found[op.offset : end]

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        namespaces = {tuple(path[:-1]) for path in await self._paths(())}
        for condition in op.match_conditions or ():
            namespaces = {namespace for namespace in namespaces if _has(namespace, condition)}
        return sorted({namespace[: op.max_depth] for namespace in namespaces})[op.offset : op.offset + op.limit]

    async def _paths(self, prefix: tuple[str, ...]) -> list[list[str]]:
        """Return the namespaces, each with a key at its end, of the items below a namespace."""
        return [split(key)[1:] for key in await self._port.list_keys(join([ROOT, *prefix]) + "/")]

    async def _read(self, paths: Sequence[list[str]]) -> list[SearchItem]:
        found = await self._documents.load_all([join([ROOT, *path]) for path in paths])
        items = [_item(SearchItem, tuple(path[:-1]), path[-1], each) for path, each in zip(paths, found, strict=True)]
        return [item for item in items if item is not None]  # some were deleted meanwhile


def _check(op: Op) -> None:
    if isinstance(op, SearchOp):
        if op.limit < 0 or op.offset < 0:
            raise ValueError(f"limit and offset must be 0 or more, not {op.limit} and {op.offset}")
    elif isinstance(op, PutOp):
        if op.ttl is not None:
            raise NotImplementedError(
                "botwired's store has no ttl: BotWire keeps values for good. Delete the item instead"
            )
    elif not isinstance(op, GetOp | ListNamespacesOp):
        raise ValueError(f"not an operation of a store: {op!r}")


def _key(namespace: tuple[str, ...], key: str) -> str:
    return join([ROOT, *namespace, key])


def _item(kind: type[Any], namespace: tuple[str, ...], key: str, document: Document | None) -> Any:
    """Return a document as an item. A value that no store has written is none."""
    if document is None or document.entry is None or not isinstance(document.value, dict):
        return None
    times = (document.entry.created_at, document.entry.updated_at)
    created, updated = (datetime.fromtimestamp(at, timezone.utc) for at in times)
    return kind(value=document.value, key=key, namespace=namespace, created_at=created, updated_at=updated)


def _has(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    pattern = condition.path
    if len(pattern) > len(namespace):
        return False
    part = namespace[: len(pattern)] if condition.match_type == "prefix" else namespace[len(namespace) - len(pattern) :]
    return all(want in ("*", label) for want, label in zip(pattern, part, strict=True))


# --- filters


def _matches(value: Any, wanted: Any) -> bool:
    """Compare with a filter: equal values, or those for which the operators hold, at any depth."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_holds(name, value, operand) for name, operand in wanted.items())
        return isinstance(value, dict) and all(_matches(value.get(name), want) for name, want in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_matches, value, wanted))
    return cast(bool, value == wanted)


def _holds(name: str, value: Any, operand: Any) -> bool:
    if name == "$eq":
        return cast(bool, value == operand)
    if name == "$ne":
        return cast(bool, value != operand)
    if name not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"no operator of filters: {name!r}. There are $eq, $ne, $gt, $gte, $lt and $lte")
    if not _are_comparable(value, operand):
        return False
    sign = (value > operand) - (value < operand)
    return sign in {"$gt": (1,), "$gte": (0, 1), "$lt": (-1,), "$lte": (-1, 0)}[name]


def _are_comparable(value: Any, operand: Any) -> bool:
    return all(isinstance(side, int | float) for side in (value, operand)) or all(
        isinstance(side, str) for side in (value, operand)
    )
