"""Threads of LangGraph's as entries.

A saver that writes an entry for each step uses up a day's writes in some hundred steps. Here a thread is the entry
``threads/THREAD/NAMESPACE``, in which each step takes the place of an older one:

    {"checkpoints": [{"id", "parent", "checkpoint", "metadata", "writes": [WRITE]}], "early": {ID: [WRITE]}}

with each WRITE as {"task", "path", "index", "channel", "value"}. The newest checkpoint comes first. "early" are writes
to a checkpoint that is still on its way.

A checkpoint, its metadata and a value are texts. If an entry gets too long, the longest of them go into parts, entries
of their own, and a list of the parts' names takes their place. A part never changes, and is there before anything names
it: so a reader sees whole checkpoints.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from botwired._entries import Entry, seen
from botwired._parts import PART_CHARS, cut, new_name, to_json
from botwired._parts import join as join_parts
from botwired._paths import join, split
from botwired._port import Port
from botwired.errors import Conflict, Error

ROOT = "threads"
PARTS = "~parts"  # no label of a path is that: a ~ in one is escaped

# INLINE_CHARS is how long an entry may be before texts go into parts.
INLINE_CHARS = PART_CHARS - 5_000

Fields = dict[str, Any]


class _Changed(Exception):
    """A part has gone: the thread is another one by now."""


class Threads:
    """Threads as entries, with their parts."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def places(self, thread_id: str | None) -> list[tuple[str, str]]:
        """Return each namespace of a thread, or of all threads, with its thread."""
        keys = await self._port.list_keys(join([ROOT] if thread_id is None else [ROOT, thread_id]) + "/")
        paths = [split(key) for key in keys]
        return sorted((path[1], path[2]) for path in paths if len(path) == 3)  # parts have more, and keys of others any

    async def read(self, thread_id: str, namespace: str, wanted: Callable[[Fields], bool]) -> list[Fields]:
        """Return the checkpoints that are wanted, whole, the newest first."""
        lost: Entry | None = None
        while True:
            entry = await self._port.entry(_key(thread_id, namespace))
            try:
                return [await self._whole(thread_id, each) for each in _thread(entry)["checkpoints"] if wanted(each)]
            except _Changed:
                if lost is not None and entry is not None and lost.text == entry.text:
                    raise Error(
                        f"parts of the thread {thread_id!r} are missing. If another host has written them, they may "
                        "still be on their way: try again. If somebody has deleted them, delete the thread."
                    ) from None
                lost = entry

    async def change(self, thread_id: str, namespace: str, edit: Callable[[Fields], bool]) -> None:
        """Edit a thread as it is, and again if somebody else has written meanwhile. False: it stays."""
        key = _key(thread_id, namespace)
        async with self._port.turn(key):
            while not await self._change(thread_id, key, edit):
                pass

    async def _change(self, thread_id: str, key: str, edit: Callable[[Fields], bool]) -> bool:
        """Try to edit a thread. False: somebody else has written meanwhile."""
        entry = await self._port.entry(key)
        thread = _thread(entry)
        before = _parts(thread)
        if not edit(thread):
            return True
        written = await self._fit(thread_id, thread)
        try:
            await self._port.swap(key, thread, seen(entry))
        except Conflict:
            await self._drop(thread_id, written)
            return False
        await self._drop(thread_id, before.union(written) - _parts(thread))
        return True

    async def delete(self, thread_id: str) -> None:
        for key in await self._port.list_keys(join([ROOT, thread_id]) + "/"):
            await self._port.delete(key)

    async def _fit(self, thread_id: str, thread: Fields) -> list[str]:
        """Put the longest texts into parts, until the rest fits into an entry. The result is the parts' names.

        If that is not enough, the oldest checkpoints go.
        """
        written: list[str] = []
        excess = len(to_json(thread)) - INLINE_CHARS
        for fields, name in sorted(_inline(thread), key=lambda text: len(text[0][text[1]]), reverse=True):
            if excess <= 0:
                break
            parts = {new_name(): part for part in cut(fields[name])}
            for part_name, part in parts.items():
                await self._port.set(_part_key(thread_id, part_name), part)
            excess -= len(fields[name]) - len(to_json(list(parts)))
            fields[name] = list(parts)
            written += parts
        while len(to_json(thread)) > PART_CHARS and len(thread["checkpoints"]) > 1:
            thread["checkpoints"].pop()  # what is left of the oldest one takes room, too
        return written

    async def _whole(self, thread_id: str, fields: Fields) -> Fields:
        for holder, name in [
            (fields, "checkpoint"),
            (fields, "metadata"),
            *((each, "value") for each in fields["writes"]),
        ]:
            if isinstance(holder[name], list):
                parts = await self._port.entries([_part_key(thread_id, part) for part in holder[name]])
                texts = [part.text for part in parts if part is not None]
                if len(texts) < len(parts):
                    raise _Changed
                holder[name] = join_parts(texts)
        return fields

    async def _drop(self, thread_id: str, names: Iterable[str]) -> None:
        """Delete parts that nothing names any more. What cannot be deleted now goes with the thread."""
        with suppress(Error):
            for name in names:
                await self._port.delete(_part_key(thread_id, name))


def _key(thread_id: str, namespace: str) -> str:
    return join([ROOT, thread_id, namespace])


def _part_key(thread_id: str, name: str) -> str:
    return f"{join([ROOT, thread_id])}/{PARTS}/{name}"


def _thread(entry: Entry | None) -> Fields:
    """Return what an entry holds, to edit."""
    if entry is None:
        return {"checkpoints": [], "early": {}}
    if not isinstance(entry.value, dict) or "checkpoints" not in entry.value:
        raise Error(f"the entry {entry.key!r} holds something else than a thread: it is left as it is")
    thread: Fields = copy.deepcopy(entry.value)
    return thread


def _texts_of(fields: Fields) -> Iterator[tuple[Fields, str]]:
    """Yield where the texts of a checkpoint are, and the names of their parts."""
    yield fields, "checkpoint"
    yield fields, "metadata"
    yield from ((each, "value") for each in fields["writes"])


def _all_texts(thread: Fields) -> Iterator[tuple[Fields, str]]:
    for fields in thread["checkpoints"]:
        yield from _texts_of(fields)
    for writes in thread["early"].values():
        yield from ((each, "value") for each in writes)


def _inline(thread: Fields) -> list[tuple[Fields, str]]:
    return [(fields, name) for fields, name in _all_texts(thread) if isinstance(fields[name], str)]


def _parts(thread: Fields) -> set[str]:
    return {part for fields, name in _all_texts(thread) if isinstance(fields[name], list) for part in fields[name]}
