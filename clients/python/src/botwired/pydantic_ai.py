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
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from botwired import AsyncMemory, Conflict, Error
from botwired._parts import Document, Documents, new_id, to_json
from botwired._port import Native

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
SEGMENT_CHARS = 32_000

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
        [record] = _RECORDS.validate_json(json.dumps([value["record"]]))
        return cls(record, tuple(value["segments"]), tuple(value["entries"]), document)


class MemoryConversationStore(ConversationStore):
    """The conversations in the memory's namespace. Their ids may be any text. Tasks may share a store."""

    def __init__(self, memory: AsyncMemory, *, segment_chars: int = SEGMENT_CHARS) -> None:
        """Make a store. Nothing is read yet.

        segment_chars: how long the newest messages grow, as JSON, before they move to a segment.
        """
        if segment_chars < 1:
            raise ValueError(f"segment_chars must be at least 1, and is {segment_chars}")
        self._port = Native(memory)
        self._documents = Documents(self._port, lambda id: f"part.{id}")
        self._segment_chars = segment_chars
        self._segments: OrderedDict[str, str] = OrderedDict()  # as JSON: a caller may change what it gets
        self._ends: OrderedDict[str, _Stored] = OrderedDict()  # by the last entry of a history: it never changes

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None if there is none."""
        stored = await self._load(conversation_id)
        return stored.record if stored else None

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records of a scope, or all, the latest saved first. It reads every conversation."""
        records = [stored.record for stored in await self._load_all() if scope is None or stored.record.scope == scope]
        return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries if the stored revision is the expected one, else raise a conflict."""
        stored = await self._load(record.conversation_id)
        if (stored.record.revision if stored else None) != expected_revision:
            raise ConversationConflict(record.conversation_id)
        added = _dump(new_entries)
        for entry_id in (added[0]["parent_id"] if added else None, record.head_id):
            if entry_id is not None and not await self._has(stored, added, entry_id):
                added = [*await self._copies(entry_id, record), *added]
        entries, sealed = self._pack([*(stored.entries if stored else ()), *added])
        segments = (*(stored.segments if stored else ()), *sealed)
        await self._store(_Stored(record, segments, tuple(entries), stored.document if stored else None), sealed)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation and all its messages if the stored revision is the expected one, else raise a conflict."""
        stored = await self._load(conversation_id)
        if stored is None or stored.document is None or stored.record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        try:
            was_there = await self._documents.delete(_key(conversation_id), stored.document)
        except Conflict as e:
            raise ConversationConflict(conversation_id) from e
        if not was_there:
            raise ConversationConflict(conversation_id)
        await self._drop(stored.segments)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. It looks through all conversations: `load_entries` is the quick way to the entries of one."""
        stored = await self._find(entry_id, await self._load_all())
        [raw] = await self._walk(stored, entry_id, 1)
        [entry] = _validate([raw])
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, the oldest first, or the last `limit` of them."""
        if head_id is None:
            return []
        stored = self._ends.get(head_id) or await self._find(head_id, await self._load_all())
        return _validate(await self._walk(stored, head_id, limit))

    async def _load(self, conversation_id: str) -> _Stored | None:
        key = _key(conversation_id)
        document = await self._documents.load(key)
        return self._remember(_Stored.of(key, document)) if document else None

    async def _load_all(self) -> list[_Stored]:
        keys = await self._port.list_keys(_key(""))
        documents = await self._documents.load_all(keys)
        return [_Stored.of(key, document) for key, document in zip(keys, documents, strict=True) if document]

    async def _store(self, stored: _Stored, sealed: dict[str, list[_Raw]]) -> None:
        conversation_id = stored.record.conversation_id
        for id, entries in sealed.items():
            await self._documents.store(_segment_key(id), entries, None)
        try:
            document = await self._documents.store(_key(conversation_id), stored.value(), stored.document)
        except Conflict as e:
            await self._drop(sealed)
            raise ConversationConflict(conversation_id) from e
        self._remember(replace(stored, document=document))

    async def _drop(self, segments: Iterable[str]) -> None:
        keys = [_segment_key(id) for id in segments]
        for key, document in zip(keys, await self._documents.load_all(keys), strict=True):
            if document is not None:
                await self._documents.delete(key, document)

    def _pack(self, entries: Iterable[_Raw]) -> tuple[list[_Raw], dict[str, list[_Raw]]]:
        """Return the entries that stay with the record, and those for new segments."""
        sealed: dict[str, list[_Raw]] = {}
        newest: list[_Raw] = []
        size = 0
        for entry in entries:
            chars = len(to_json(entry))
            if newest and size + chars > self._segment_chars:
                sealed[new_id()] = newest
                newest, size = [], 0
            newest.append(entry)
            size += chars
        if size > self._segment_chars:  # one entry that is longer
            sealed[new_id()] = newest
            newest = []
        return newest, sealed

    async def _copies(self, entry_id: str, record: ConversationRecord) -> list[_Raw]:
        """Return the history up to an entry of another conversation, for a fork of that."""
        try:
            source = await self._load(record.forked_from) if record.forked_from is not None else None
            stored = await self._find(entry_id, [source] if source else await self._load_all())
            return await self._walk(stored, entry_id, None)
        except LookupError as e:
            raise ConversationConflict(record.conversation_id) from e

    async def _find(self, entry_id: str, among: Iterable[_Stored]) -> _Stored:
        """Return a conversation that has an entry."""
        for stored in among:
            if await self._has(stored, (), entry_id):
                return stored
        raise LookupError(f"no conversation in the store has the entry {entry_id!r}")

    async def _has(self, stored: _Stored | None, added: Iterable[_Raw], entry_id: str) -> bool:
        """Report whether an entry is among the added ones, or in a conversation."""
        if any(raw["id"] == entry_id for raw in added):
            return True
        if stored is None:
            return False
        if entry_id == stored.record.head_id or any(raw["id"] == entry_id for raw in stored.entries):
            return True
        return any(raw["id"] == entry_id for entries in await self._read(stored.segments) for raw in entries)

    async def _walk(self, stored: _Stored, head_id: str, limit: int | None) -> list[_Raw]:
        """Return the entries up to a head, the oldest first."""
        known = {raw["id"]: raw for raw in stored.entries}
        older = list(stored.segments)
        at_once = max(1, len(older)) if limit is None else 1
        history: list[_Raw] = []
        wanted: str | None = head_id
        while wanted is not None and (limit is None or len(history) < limit):
            while wanted not in known:
                if not older:
                    raise LookupError(f"the entry {wanted!r} of the conversation {stored.record.conversation_id!r} is gone")
                segments, older = older[-at_once:], older[:-at_once]
                known.update((raw["id"], raw) for entries in await self._read(segments) for raw in entries)
            history.append(known[wanted])
            wanted = known[wanted]["parent_id"]
        return history[::-1]

    async def _read(self, segments: Sequence[str]) -> list[list[_Raw]]:
        """Return the entries of segments."""
        texts = {id: self._segments[id] for id in segments if id in self._segments}
        missing = [id for id in segments if id not in texts]
        documents = await self._documents.load_all([_segment_key(id) for id in missing])
        for id, document in zip(missing, documents, strict=True):
            if document is None:
                raise LookupError(f"the messages in the entry {_segment_key(id)!r} are gone")
            texts[id] = to_json(document.value)
            _keep(self._segments, id, texts[id])
        return [json.loads(texts[id]) for id in segments]

    def _remember(self, stored: _Stored) -> _Stored:
        """Save read_history, which gets no more than the last entry, a search."""
        for entry_id in (*stored.record.branches, stored.record.head_id):
            if entry_id is not None:
                _keep(self._ends, entry_id, stored)
        return stored


def _key(conversation_id: str) -> str:
    return f"conversation.{conversation_id}"


def _segment_key(id: str) -> str:
    return f"entries.{id}"


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
    messages = ModelMessagesTypeAdapter.validate_json(json.dumps([raw["message"] for raw in entries]))
    return [
        ConversationEntry(id=raw["id"], parent_id=raw["parent_id"], kind=raw["kind"], message=message)
        for raw, message in zip(entries, messages, strict=True)
    ]
