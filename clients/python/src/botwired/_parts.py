"""Values that are too long for one entry, in parts.

BotWire takes 100,000 characters in a value. A longer one is cut: each part is an entry of its own under a name that
nothing else has, and the value's own entry names them in their order:

    {"botwired": "parts", "parts": ["5f0c…", "a17e…"]}

The parts are written first. So a reader sees the whole value of before or the whole new one. A part never changes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botwired._entries import ABSENT, Entry, IfVersion, seen
from botwired._port import Port
from botwired._values import encode
from botwired.errors import Conflict, Error

# PART_CHARS is how long a part is. The rest of the 100,000 characters is for what is around it, and for the name of an
# entry whose key is too long for BotWire.
PART_CHARS = 90_000

# MARK begins every part. So no part looks like JSON, and Memory stores each as it is.
MARK = "="


def to_json(value: Any) -> str:
    """Return compact JSON, or raise the error with which Memory refuses the value."""
    return encode([value])[1:-1]


def new_name() -> str:
    """Return a name that nothing else has: 64 random bits."""
    return secrets.token_hex(8)


def cut(text: str) -> list[str]:
    return [MARK + text[start : start + PART_CHARS] for start in range(0, len(text), PART_CHARS)]


def join(parts: Iterable[str]) -> str:
    return "".join(part[len(MARK) :] for part in parts)


def joined(key: str, parts: Iterable[str]) -> Any:
    """Return the value whose text is in parts."""
    try:
        return json.loads(join(parts))
    except (ValueError, RecursionError):
        raise Error(f"the parts of the value of {key!r} are no JSON together") from None


@dataclass(frozen=True)
class Document:
    """A value of any length, as it was read."""

    value: Any
    version: IfVersion
    parts: tuple[str, ...]
    entry: Entry | None = None
    """As it was read; None of a value that was written."""


class Documents:
    """Values of any length. `part_key` makes the key of a part of its name."""

    def __init__(self, port: Port, part_key: Callable[[str], str]) -> None:
        self._port = port
        self._part_key = part_key

    async def load(self, key: str) -> Document | None:
        [document] = await self.load_all([key])
        return document

    async def load_all(self, keys: Sequence[str]) -> list[Document | None]:
        entries = await self._port.entries(keys)
        return [await self._document(key, entry) for key, entry in zip(keys, entries, strict=True)]

    async def _document(self, key: str, entry: Entry | None) -> Document | None:
        while entry is not None:
            names = _names(entry.value)
            if not names:
                return Document(entry.value, seen(entry), (), entry)
            parts = await self._port.entries([self._part_key(name) for name in names])
            texts = [part.text for part in parts if part is not None]
            if len(texts) == len(names):
                return Document(joined(key, texts), seen(entry), names, entry)
            entry = await self._again(key, names)
        return None

    async def _glance(self, key: str) -> Document | None:
        """Read a document without its parts: who replaces it needs none of them, even if some are lost."""
        entry = await self._port.entry(key)
        return None if entry is None else Document(None, seen(entry), _names(entry.value), entry)

    async def _again(self, key: str, names: tuple[str, ...]) -> Entry | None:
        """Read an entry again whose parts have gone: somebody has written another value meanwhile."""
        entry = await self._port.entry(key)
        if entry is not None and _names(entry.value) == names:
            raise Error(
                f"parts of the value of {key!r} are missing. If another host has written it, they may still be on "
                "their way: try again. If somebody has deleted them, the value is lost: write it anew, or delete it."
            )
        return entry

    async def store(self, key: str, value: Any, before: Document | None) -> Document:
        """Write if the entry is as it was seen, else raise Conflict. `before` is None if there was no entry."""
        text = to_json(value)
        names: tuple[str, ...] = ()
        if len(text) > PART_CHARS or _names(value):
            parts = {new_name(): part for part in cut(text)}
            names = tuple(parts)
            for name, part in parts.items():
                await self._port.set(self._part_key(name), part)
        try:
            stored = {"botwired": "parts", "parts": list(names)} if names else value
            version = await self._port.swap(key, stored, before.version if before else ABSENT)
        except Conflict:
            with suppress(Error):
                await self.drop(names)
            raise
        with suppress(Error):  # what cannot be deleted now stays: the change itself is made
            await self.drop(before.parts if before else ())
        return Document(value, version, names)

    async def put(self, key: str, value: Any) -> None:
        """Write whatever there is. The parts of a value that somebody has written meanwhile must go, too."""
        while True:
            with suppress(Conflict):
                await self.store(key, value, await self._glance(key))
                return

    async def remove(self, key: str) -> bool:
        """Delete whatever there is. The result is whether there was an entry."""
        while (document := await self._glance(key)) is not None:
            with suppress(Conflict):
                return await self.delete(key, document)
        return False

    async def delete(self, key: str, before: Document) -> bool:
        """Delete if the entry is as it was seen, else raise Conflict. The result is whether there was one.

        Any other error may have left parts of the value.
        """
        was_there = await self._port.delete(key, before.version)
        await self.drop(before.parts)
        return was_there

    async def drop(self, names: Iterable[str]) -> None:
        """Delete parts that nothing names any more."""
        for name in names:
            await self._port.delete(self._part_key(name))


def _names(value: Any) -> tuple[str, ...]:
    match value:
        case {"botwired": "parts", "parts": [*names]} if all(isinstance(name, str) for name in names):
            return tuple(names)
    return ()
