"""An append-only list of JSON values, kept in segments.

A list that is one value is rewritten with every append, and ends at 100,000 characters. A log keeps its newest
items under its own name, in the head, and the others in sealed segments:

    name        {"botwired": "log", "write": "5f0c…", "before": 40, "previous": "a1…", "items": [41st, 42nd]}
    name.a1…    {"before": 20, "previous": "b2…", "items": [21st … 40th]}
    name.b2…    {"before": 0, "items": [1st … 20th]}

An append writes the head alone, if nobody has changed it. When the head is full, the append first writes its items
to a new segment with a name of its own, and then a head that points to it. So every change is one conditional
write of one entry: a reader sees all of it or nothing, concurrent appenders lose nothing, and a process that is
killed leaves at most segments that nobody can reach. A sealed segment never changes.

"write" differs in every head. So a head whose answer was lost is known from one with the same items.
"split" has the parts of items that are too long for one value, and "drop" the segments of items that are gone.

A plain BotWire has no conditional writes: there, of two processes that append at once one may lose its items.
A head that is a JSON list, as BotWire's own history for LangChain writes it, is read as the items of a log.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from botwired import AsyncMemory, Memory
from botwired._entries import ABSENT, ANY, Entry, IfVersion, seen
from botwired._parts import cut, joined, new_name, to_json
from botwired._port import Blocking, Native, Port, complete
from botwired.errors import Conflict, Error

# SEGMENT_CHARS is how long a head grows. A longer one costs more bytes, a shorter one more writes: 200 messages of
# LangChain's through botwired cost 7 writes upstream and 57 kB with 8,000, 3 and 73 kB with 32,000, 2 and 99 kB with
# 60,000. ("bench histories" with the script langchain measures it.)
SEGMENT_CHARS = 32_000

# ITEM_CHARS is how long an item or a segment may be. The rest of a value's 100,000 characters is for the names
# of what is to be deleted.
ITEM_CHARS = 60_000


_WRONG = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What an entry that somebody else has written there may raise."""


@dataclass(frozen=True)
class _Segment:
    """Items in their order, of which `before` others come first. A split item is None, and `split` has its parts."""

    items: tuple[Any, ...] = ()
    before: int = 0
    previous: str | None = None
    split: dict[int, list[str]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.before + len(self.items)

    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"before": self.before, "items": list(self.items)}
        if self.previous is not None:
            fields["previous"] = self.previous
        if self.split:
            fields["split"] = {str(index): names for index, names in self.split.items()}
        return fields

    @classmethod
    def of(cls, fields: dict[str, Any]) -> _Segment:
        """Return the segment in an entry. An entry that holds something else raises one of _WRONG."""
        items, previous = tuple(fields["items"]), fields.get("previous")
        split_items = {
            range(len(items))[int(index)]: [*map(str, names)] for index, names in fields.get("split", {}).items()
        }
        return cls(items, int(fields["before"]), None if previous is None else str(previous), split_items)

    def with_item(self, item: _Item) -> _Segment:
        split_items = {**self.split, len(self.items): item.parts} if item.parts else self.split
        return replace(self, items=(*self.items, item.value), split=split_items)

    def without_last(self) -> _Segment:
        last = len(self.items) - 1
        return replace(self, items=self.items[:-1], split={i: names for i, names in self.split.items() if i != last})


@dataclass(frozen=True)
class _Item:
    value: Any
    parts: list[str]
    chars: int


@dataclass(frozen=True)
class _Head:
    segment: _Segment = _Segment()
    drop: tuple[str, ...] = ()
    write: str = ""
    version: IfVersion = ABSENT
    foreign: bool = False  # a list that BotWire's own history has written

    def value(self) -> dict[str, Any]:
        fields = {"botwired": "log", "write": self.write, **self.segment.fields()}
        if self.drop:
            fields["drop"] = list(self.drop)
        return fields

    @classmethod
    def of(cls, name: str, entry: Entry | None) -> _Head:
        if entry is None:
            return cls()
        value = entry.value
        if isinstance(value, list):
            return cls(_Segment(tuple(value)), version=seen(entry), foreign=True)
        if isinstance(value, dict) and value.get("botwired") == "log":
            with suppress(*_WRONG):
                return cls(_Segment.of(value), tuple(map(str, value.get("drop", ()))), str(value["write"]), seen(entry))
        raise Error(f"the entry {name!r} holds something else than a log: it is left as it is")


class _Changed(Exception):
    """The log has been changed while it was read."""


class _Lost(Error):
    """A segment is not there, and the head still names it."""


class LogRules:
    """The operations of a log, over any port."""

    def __init__(self, port: Port, name: str, segment_chars: int = SEGMENT_CHARS) -> None:
        if not 1 <= segment_chars <= ITEM_CHARS:
            raise ValueError(f"segment_chars is {segment_chars}: it must be from 1 to {ITEM_CHARS}")
        self._port = port
        self._name = name
        self._segment_chars = segment_chars
        self._known: _Head | None = None  # what the last call saw, to save a read: a condition guards its use
        self._sealed: dict[str, str] = {}  # the JSON of sealed segments: they never change

    def _key(self, name: str) -> str:
        return f"{self._name}.{name}"

    async def _load(self) -> _Head:
        return _Head.of(self._name, await self._port.entry(self._name))

    def _remember(self, head: _Head) -> None:
        """Save the next append a read. A condition guards it, so without one it must read."""
        self._known = head if isinstance(head.version, str) and head.version else None

    async def _store(self, head: _Head, segment: _Segment, drop: tuple[str, ...]) -> _Head:
        """Replace the head that was seen, or raises Conflict."""
        after = _Head(segment, drop, new_name())
        version = await self._port.swap(self._name, after.value(), head.version)
        return replace(after, version=version)

    # --- writing

    async def append(self, values: Iterable[Any]) -> None:
        """Append the values in their order. A reader sees all of them, or none."""
        items = await self._prepare(values)
        if not items:
            return
        async with self._port.turn(self._name):
            head = self._known
            while True:
                head = head or await self._load()
                try:
                    self._remember(await self._append(head, items))
                    return
                except Conflict:
                    head = None

    async def _append(self, head: _Head, items: list[_Item]) -> _Head:
        if head.foreign:  # of any length: its items are packed as if they were new
            items = [*await self._prepare(head.segment.items), *items]
            head = replace(head, segment=_Segment())
        sealed, segment = self._pack(head.segment, items)
        for name, full in sealed.items():
            await self._port.set(self._key(name), full.fields())
        try:
            after = await self._store(head, segment, head.drop)
        except Conflict:
            await self._delete(sealed)
            raise
        return await self._try_to_sweep(after) if sealed else after

    async def replace(self, values: Iterable[Any]) -> None:
        """Have the log hold these values and no others, at once for every reader."""
        items = await self._prepare(values)
        async with self._port.turn(self._name):
            while True:
                head = await self._load()
                if head.version is ABSENT and not items:
                    return
                with suppress(Conflict, _Changed):
                    await self._replace(head, items)
                    return

    async def update(self, change: Callable[[list[Any]], object]) -> list[Any]:
        """Have a function change the list of all items, if nobody else changes it meanwhile; else once more."""
        async with self._port.turn(self._name):
            while True:
                head = await self._load()
                with suppress(Conflict, _Changed):
                    before = await self._read(head, 0)
                    after = copy.deepcopy(before)
                    change(after)
                    if after != before:
                        await self._update(head, await self._prepare(after))
                    return before

    async def _update(self, head: _Head, items: list[_Item]) -> None:
        """Replace the items, or leave nothing of them: the next attempt has others."""
        try:
            await self._replace(head, items)
        except (Conflict, _Changed):
            await self._delete(name for item in items for name in item.parts)
            raise

    async def _replace(self, head: _Head, items: list[_Item]) -> None:
        drop = (*head.drop, *await self._names(head))
        if not items and not drop:
            await self._port.delete(self._name, head.version)
            return
        sealed, segment = self._pack(_Segment(), items)
        for name, full in sealed.items():
            await self._port.set(self._key(name), full.fields())
        try:
            after = await self._store(head, segment, drop)
        except Conflict:
            await self._delete(sealed)
            raise
        if items:
            await self._try_to_sweep(after)
            return
        after = await self._sweep(after)  # who empties a log wants nothing of it to stay
        if not after.drop:
            with suppress(Error):  # somebody has appended since, or an empty head stays
                await self._port.delete(self._name, after.version)

    async def pop(self) -> Any:
        """Remove the last item and return it, or None if there is none."""
        async with self._port.turn(self._name):
            while True:
                head = await self._load()
                with suppress(Conflict, _Changed):
                    if head.foreign:
                        head = await self._append(head, [])
                    previous = head.segment.previous
                    if head.segment.items:
                        return await self._pop(head, head.segment, head.drop)
                    if previous is None:
                        return None
                    segment = await self._segment(head, previous, head.segment.before)
                    return await self._pop(head, segment, (*head.drop, previous))

    async def _pop(self, head: _Head, segment: _Segment, drop: tuple[str, ...]) -> Any:
        [value] = await self._values(head, segment, len(segment.items) - 1)
        parts = segment.split.get(len(segment.items) - 1, [])
        after = await self._store(head, segment.without_last(), (*drop, *parts))
        self._remember(await self._try_to_sweep(after))
        return value

    def _pack(self, segment: _Segment, items: Sequence[_Item]) -> tuple[dict[str, _Segment], _Segment]:
        """Return the segments to seal, by their names, and the segment of the new head."""
        sealed: dict[str, _Segment] = {}
        size = len(to_json(segment.fields()))
        for item in items:
            if segment.items and size + item.chars > self._segment_chars:
                name = new_name()
                sealed[name] = segment
                segment = _Segment(before=segment.end, previous=name)
                size = len(to_json(segment.fields()))
            segment = segment.with_item(item)
            size += item.chars + 1
        return sealed, segment

    async def _prepare(self, values: Iterable[Any]) -> list[_Item]:
        return [await self._item(text) for text in [to_json(value) for value in values]]

    async def _item(self, text: str) -> _Item:
        if len(text) <= ITEM_CHARS:
            return _Item(json.loads(text), [], len(text))
        parts = {new_name(): part for part in cut(text)}
        for name, part in parts.items():
            await self._port.set(self._key(name), part)
        return _Item(None, list(parts), len(to_json(list(parts))) + 8)

    async def _sweep(self, head: _Head) -> _Head:
        """Delete the segments and parts of items that are gone."""
        if not head.drop:
            return head
        await self._delete(head.drop)
        if head.version in (ANY, ""):  # of a server that tells no version in its answer to a write
            now = await self._load()
            if now.write != head.write:
                return now
            head = now
        try:
            return await self._store(head, head.segment, ())
        except Conflict:
            return head  # the head of now still has the list: the next one to sweep deletes nothing anew

    async def _try_to_sweep(self, head: _Head) -> _Head:
        """Sweep now or with a later change: this one is made."""
        with suppress(Error):  # the head of now still has the list
            return await self._sweep(head)
        return head

    async def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._sealed.pop(name, None)
            await self._port.delete(self._key(name))

    # --- reading

    async def read(self, limit: int | None = None) -> list[Any]:
        """Return the last `limit` items, or all, the oldest first."""
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: it must be 0 or more")
        while True:
            head = await self._load()
            first = 0 if limit is None else max(0, head.segment.end - limit)
            try:
                return await self._read(head, first)
            except _Changed:
                continue

    async def _read(self, head: _Head, first: int) -> list[Any]:
        pieces: list[list[Any]] = []
        segment = head.segment
        while True:
            pieces.append(await self._values(head, segment, max(0, first - segment.before)))
            if segment.previous is None or segment.before <= first:
                break
            segment = await self._segment(head, segment.previous, segment.before)
        return [value for piece in reversed(pieces) for value in piece]

    async def _values(self, head: _Head, segment: _Segment, start: int) -> list[Any]:
        values = list(segment.items[start:])
        for index, names in segment.split.items():
            if index >= start:
                values[index - start] = joined(self._name, [str(await self._part(head, name)) for name in names])
        return values

    async def _segment(self, head: _Head, name: str, end: int) -> _Segment:
        """Return a sealed segment. It ends where the next one begins, so no chain of them is a circle."""
        text = self._sealed.get(name)
        if text is None:
            text = to_json(await self._part(head, name))
            self._sealed[name] = text
        with suppress(*_WRONG):
            segment = _Segment.of(json.loads(text))
            if segment.items and segment.end == end:
                return segment
        raise _Lost(
            f"the entry {self._key(name)!r} holds something else than a part of the log {self._name!r}: clear the log"
        )

    async def _part(self, head: _Head, name: str) -> Any:
        entry = await self._port.entry(self._key(name))
        if entry is not None:
            return entry.value
        now = await self._load()
        if now.version is ABSENT or now.write != head.write:
            raise _Changed
        raise _Lost(
            f"the log {self._name!r} has lost a part of its items, the entry {self._key(name)!r}. If another host has "
            "written it, it may still be on its way: try again. If somebody has deleted it, its items are gone: clear "
            "the log."
        )

    async def _names(self, head: _Head) -> list[str]:
        """Return the names of all segments and parts."""
        names = []
        segment = head.segment
        while True:
            names += [name for parts in segment.split.values() for name in parts]
            if segment.previous is None:
                return names
            names.append(segment.previous)
            try:
                segment = await self._segment(head, segment.previous, segment.before)
            except _Lost:
                return names  # whatever it has pointed to, nobody can reach


class Log:
    """An append-only list of JSON values, for any number of processes at once. Threads may share it."""

    def __init__(self, memory: Memory, name: str, *, segment_chars: int = SEGMENT_CHARS) -> None:
        self._rules = LogRules(Blocking(memory), name, segment_chars)

    def append(self, values: Iterable[Any]) -> None:
        """Append the values in their order. A reader sees all of them, or none."""
        complete(self._rules.append(values))

    def read(self, limit: int | None = None) -> list[Any]:
        """Return the last `limit` items, or all, the oldest first."""
        return complete(self._rules.read(limit))

    def pop(self) -> Any:
        """Remove the last item and return it, or None if the log is empty."""
        return complete(self._rules.pop())

    def replace(self, values: Iterable[Any]) -> None:
        """Have the log hold these values and no others. A reader sees all of the change, or nothing."""
        complete(self._rules.replace(values))

    def update(self, change: Callable[[list[Any]], object]) -> list[Any]:
        """Have `change` change the list of all items in place, and return the items of before.

        It is called again whenever somebody else has changed the log meanwhile: let it do nothing else.
        """
        return complete(self._rules.update(change))

    def clear(self) -> None:
        """Remove all items."""
        complete(self._rules.replace(()))


class AsyncLog:
    """Log for AsyncMemory."""

    def __init__(self, memory: AsyncMemory, name: str, *, segment_chars: int = SEGMENT_CHARS) -> None:
        self._rules = LogRules(Native(memory), name, segment_chars)

    async def append(self, values: Iterable[Any]) -> None:
        """Append the values in their order. A reader sees all of them, or none."""
        await self._rules.append(values)

    async def read(self, limit: int | None = None) -> list[Any]:
        """Return the last `limit` items, or all, the oldest first."""
        return await self._rules.read(limit)

    async def pop(self) -> Any:
        """Remove the last item and return it, or None if the log is empty."""
        return await self._rules.pop()

    async def replace(self, values: Iterable[Any]) -> None:
        """Have the log hold these values and no others. A reader sees all of the change, or nothing."""
        await self._rules.replace(values)

    async def clear(self) -> None:
        """Remove all items."""
        await self._rules.replace(())
