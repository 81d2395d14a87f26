"""Conversations of Pydantic AI, kept in a memory: ``pip install 'botwired[pydantic-ai]'``.

    from botwired import AsyncMemory
    from botwired.pydantic_ai import MemoryConversationStore

    store = MemoryConversationStore(AsyncMemory("my-agent"))
    conversation = await store.load("user-42") or Conversation(conversation_id="user-42")
    result = await agent.run("Hello", conversation=conversation)
    await store.save(result)

A conversation is one entry: its record, and its newest messages. When these get long, they move to a segment, an entry
that never changes:

    conversation.user-42    {"record": {...}, "segments": ["5f0c…"], "entries": [41st, 42nd]}
    entries.5f0c…           [1st … 40th]

So a save is one conditional write, and a reader sees all of it or nothing. Of two that save the same conversation,
one gets a ConversationConflict. (A plain BotWire has no conditional writes: there, the store compares before it writes,
and two that save at the same moment may both succeed.) A message may be longer than a value: it is kept in parts.

A fork has copies of the messages that it keeps. So `delete` deletes all of a conversation's messages, and no other's.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from botwired import ANY, AsyncMemory, Conflict, Error
from botwired._parts import Document, Documents, new_name, to_json
from botwired._port import Native
from botwired._values import SURROGATE

try:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessagesTypeAdapter
except ImportError as e:
    raise ImportError(
        "botwired.pydantic_ai needs a Pydantic AI that has conversation stores: pip install 'botwired[pydantic-ai]'"
    ) from e

__all__ = ["MemoryConversationStore"]

# SEGMENT_CHARS is how long the newest messages grow in the conversation's own entry. A longer one costs more bytes a
# save, a shorter one more entries a conversation: make histories measures both.
SEGMENT_CHARS = 16_000

# REMEMBERED bounds the segments, and the conversations, that a store keeps in its own memory to save reads.
REMEMBERED = 256

# Bytes in messages and in tool calls travel as Pydantic AI's own adapter for messages has them.
_RECORDS = TypeAdapter(list[ConversationRecord], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))

_Raw = dict[str, Any]
"""An entry as JSON: `id`, `parent_id`, `kind` and `message`."""


@dataclass(frozen=True)
class _Stored:
    """A conversation as it is stored. Its entries include the whole history up to the head, and its branches."""

    record: ConversationRecord
    segments: tuple[str, ...] = ()
    entries: tuple[_Raw, ...] = ()  # the newest, in no segment yet
    document: Document | None = field(default=None, compare=False)

    def value(self) -> dict[str, Any]:
        [record] = _RECORDS.dump_python([self.record], mode="json")
        return {"record": record, "segments": self.segments, "entries": self.entries}

    @classmethod
    def of(cls, key: str, document: Document) -> _Stored:
        value = document.value
        if not isinstance(value, dict) or not {"record", "segments", "entries"} <= value.keys():
            raise Error(f"the entry {key!r} holds something else than a conversation: it is left as it is")
        [record] = _parse(_RECORDS, [value["record"]])
        return cls(record, tuple(value["segments"]), tuple(value["entries"]), document)


class _Conversations:
    """Conversations in a memory. It is apart from the store, whose base class has private names of its own."""

    def __init__(self, memory: AsyncMemory, segment_chars: int) -> None:
        self._port = Native(memory)
        self._documents = Documents(self._port, lambda name: f"part.{name}")
        self._segment_chars = segment_chars
        self._segments: OrderedDict[str, str] = OrderedDict()  # as JSON: a caller may change what it gets
        self._seen: OrderedDict[str, _Stored] = OrderedDict()  # by its revision, and by the last entries of histories

    async def load(self, conversation_id: str) -> _Stored | None:
        key = _key(conversation_id)
        document = await self._documents.load(key)
        return self._remember(_Stored.of(key, document)) if document else None

    async def as_of(self, conversation_id: str, revision: str | None) -> _Stored | None:
        """Return a conversation as it is, without a read if a write's condition will tell whether it still is."""
        seen = self._seen.get(revision) if revision is not None else None
        if seen is None or seen.document is None or seen.document.version in (ANY, ""):
            return await self.load(conversation_id)
        return seen if seen.record.conversation_id == conversation_id else None

    async def load_all(self) -> list[_Stored]:
        keys = await self._port.list_keys(_key(""))
        documents = await self._documents.load_all(keys)
        return [_Stored.of(key, document) for key, document in zip(keys, documents, strict=True) if document]

    async def store(self, record: ConversationRecord, before: _Stored | None, added: Iterable[_Raw]) -> None:
        """Write a record and entries behind those of before."""
        newest, sealed = self._pack([*(before.entries if before else ()), *added])
        segments = (*(before.segments if before else ()), *sealed)
        stored = _Stored(record, segments, tuple(newest))
        for name, entries in sealed.items():
            await self._documents.store(_segment_key(name), entries, None)
        try:
            key = _key(record.conversation_id)
            document = await self._documents.store(key, stored.value(), before.document if before else None)
        except Conflict as e:
            with suppress(Error):
                await self._drop(sealed)
            raise ConversationConflict(record.conversation_id) from e
        self._remember(replace(stored, document=document))

    async def delete(self, stored: _Stored) -> None:
        conversation_id = stored.record.conversation_id
        assert stored.document is not None, "the conversation was read"
        try:
            was_there = await self._documents.delete(_key(conversation_id), stored.document)
        except Conflict as e:
            raise ConversationConflict(conversation_id) from e
        if not was_there:
            raise ConversationConflict(conversation_id)
        await self._drop(stored.segments)

    async def end(self, head_id: str) -> _Stored:
        """Return a conversation that has an entry, without a search if the entry was the last one of a read history."""
        return self._seen.get(head_id) or await self.find(head_id)

    async def find(self, entry_id: str, first: str | None = None) -> _Stored:
        """Return a conversation that has an entry: that of the id `first`, or any other."""
        likely = await self.load(first) if first is not None else None
        if likely is not None and await self.has(likely, entry_id):
            return likely
        for stored in await self.load_all():
            if await self.has(stored, entry_id):
                return stored
        raise LookupError(f"no conversation in the store has the entry {entry_id!r}")

    async def has(self, stored: _Stored, entry_id: str) -> bool:
        """Report whether a conversation has an entry."""
        if entry_id == stored.record.head_id or any(raw["id"] == entry_id for raw in stored.entries):
            return True
        return any(raw["id"] == entry_id for entries in await self._read(stored.segments) for raw in entries)

    async def history(self, stored: _Stored, head_id: str, limit: int | None) -> list[_Raw]:
        """Return the entries up to a head, the oldest first, or the last `limit` of them."""
        known = {raw["id"]: raw for raw in stored.entries}
        older = list(stored.segments)
        at_once = max(1, len(older)) if limit is None else 1
        history: list[_Raw] = []
        wanted: str | None = head_id
        while wanted is not None and (limit is None or len(history) < limit):
            while wanted not in known:
                if not older:
                    raise LookupError(f"{stored.record.conversation_id!r} lacks the entry {wanted!r}")
                segments, older = older[-at_once:], older[:-at_once]
                known.update((raw["id"], raw) for entries in await self._read(segments) for raw in entries)
            history.append(known[wanted])
            wanted = known[wanted]["parent_id"]
        return history[::-1]

    def _pack(self, entries: Iterable[_Raw]) -> tuple[list[_Raw], dict[str, list[_Raw]]]:
        """Return the entries that stay with the record, and those for new segments."""
        sealed: dict[str, list[_Raw]] = {}
        newest: list[_Raw] = []
        size = 0
        for entry in entries:
            chars = len(to_json(entry))
            if newest and size + chars > self._segment_chars:
                sealed[new_name()] = newest
                newest, size = [], 0
            newest.append(entry)
            size += chars
        if size > self._segment_chars:  # one entry that is longer
            sealed[new_name()] = newest
            newest = []
        return newest, sealed

    async def _read(self, segments: Sequence[str]) -> list[list[_Raw]]:
        """Return the entries of segments."""
        texts = {name: self._segments[name] for name in segments if name in self._segments}
        missing = [name for name in segments if name not in texts]
        documents = await self._documents.load_all([_segment_key(name) for name in missing])
        for name, document in zip(missing, documents, strict=True):
            if document is None:
                raise LookupError(f"the messages in the entry {_segment_key(name)!r} are gone")
            texts[name] = to_json(document.value)
            _keep(self._segments, name, texts[name])
        return [json.loads(texts[name]) for name in segments]

    async def _drop(self, segments: Iterable[str]) -> None:
        """Delete segments that nothing names any more."""
        keys = [_segment_key(name) for name in segments]
        for key, document in zip(keys, await self._documents.load_all(keys), strict=True):
            if document is not None:
                await self._documents.delete(key, document)

    def _remember(self, stored: _Stored) -> _Stored:
        """Save read_history, which gets no more than the last entry, a search, and write_record a read."""
        for name in (*stored.record.branches, stored.record.head_id, stored.record.revision):
            if name is not None:
                _keep(self._seen, name, stored)
        return stored


class MemoryConversationStore(ConversationStore):
    """The conversations in the memory's namespace. Their ids may be any text. Tasks may share a store."""

    def __init__(self, memory: AsyncMemory, *, segment_chars: int = SEGMENT_CHARS) -> None:
        """Make a store. Nothing is read yet.

        segment_chars: how long the newest messages grow, as JSON, before they move to a segment.
        """
        if segment_chars < 1:
            raise ValueError(f"segment_chars must be at least 1, and is {segment_chars}")
        self._conversations = _Conversations(memory, segment_chars)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None if there is none."""
        stored = await self._conversations.load(conversation_id)
        return deepcopy(stored.record) if stored else None

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records of a scope, or all, the latest saved first. It reads every conversation."""
        records = [stored.record for stored in await self._conversations.load_all()]
        chosen = [record for record in records if scope is None or record.scope == scope]
        return sorted(chosen, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries if the stored revision is the expected one, else raise a conflict."""
        before = await self._conversations.as_of(record.conversation_id, expected_revision)
        if (before.record.revision if before else None) != expected_revision:
            raise ConversationConflict(record.conversation_id)
        added = _dump(new_entries)
        for entry_id in (added[0]["parent_id"] if added else None, record.head_id):
            if entry_id is None or any(raw["id"] == entry_id for raw in added):
                continue
            if before is None or not await self._conversations.has(before, entry_id):
                added = [*await self._copies(entry_id, record), *added]
        await self._conversations.store(deepcopy(record), before, added)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation and its messages if the stored revision is the expected one, else raise a conflict."""
        stored = await self._conversations.load(conversation_id)
        if stored is None or stored.record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        await self._conversations.delete(stored)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry, after a search in all conversations: `load_entries` is quicker if you know which one."""
        stored = await self._conversations.find(entry_id)
        [entry] = _validate(await self._conversations.history(stored, entry_id, 1))
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, the oldest first, or the last `limit` of them."""
        if head_id is None:
            return []
        stored = await self._conversations.end(head_id)
        return _validate(await self._conversations.history(stored, head_id, limit))

    async def _copies(self, entry_id: str, record: ConversationRecord) -> list[_Raw]:
        """Return the history up to an entry of another conversation, for a fork of that."""
        try:
            source = await self._conversations.find(entry_id, record.forked_from)
            return await self._conversations.history(source, entry_id, None)
        except LookupError as e:
            raise ConversationConflict(record.conversation_id) from e


def _key(conversation_id: str) -> str:
    return f"conversation.{conversation_id}"


def _segment_key(name: str) -> str:
    return f"entries.{name}"


def _keep(kept: OrderedDict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)


def _dump(entries: Sequence[ConversationEntry]) -> list[_Raw]:
    messages = ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries], mode="json")
    return [
        {"id": entry.id, "parent_id": entry.parent_id, "kind": entry.kind, "message": message}
        for entry, message in zip(entries, messages, strict=True)
    ]


def _validate(entries: Sequence[_Raw]) -> list[ConversationEntry]:
    messages = _parse(ModelMessagesTypeAdapter, [raw["message"] for raw in entries])
    return [
        ConversationEntry(id=raw["id"], parent_id=raw["parent_id"], kind=raw["kind"], message=message)
        for raw, message in zip(entries, messages, strict=True)
    ]


def _parse(adapter: TypeAdapter[list[Any]], rows: list[Any]) -> list[Any]:
    """Have Pydantic validate JSON. Its parser refuses lone surrogates: they pass it as texts that nothing else has."""
    text, mark = json.dumps(rows, ensure_ascii=False), new_name()
    plain = SURROGATE.sub(lambda half: f"{mark}{ord(half[0]):04x}", text)
    found = adapter.validate_json(plain)
    return found if plain == text else _unmarked(found, re.compile(mark + "([0-9a-f]{4})"))


def _unmarked(value: Any, mark: re.Pattern[str]) -> Any:
    """Return a value with its lone surrogates. Objects are changed in place."""
    if isinstance(value, str):
        return mark.sub(lambda half: chr(int(half[1], 16)), value)
    if isinstance(value, list | tuple):
        return type(value)(_unmarked(each, mark) for each in value)
    if isinstance(value, dict):
        return {_unmarked(key, mark): _unmarked(each, mark) for key, each in value.items()}
    if is_dataclass(value):
        for each in fields(value):
            object.__setattr__(value, each.name, _unmarked(getattr(value, each.name), mark))
    return value
