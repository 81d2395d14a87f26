"""LlamaIndex's stores, kept in a memory: ``pip install 'botwired[llama-index]'``.

    from botwired import Memory
    from botwired.llama_index import MemoryChatStore, MemoryKVStore
    from llama_index.core.memory import ChatMemoryBuffer
    from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore

    memory = Memory("my-agent")
    docstore = KVDocumentStore(MemoryKVStore(memory))
    buffer = ChatMemoryBuffer.from_defaults(chat_store=MemoryChatStore(memory), chat_store_key="user-42")

Each value of a key-value store is an entry, and may be longer than BotWire takes: it is kept in parts then. Each chat
is a log in segments: a message sends only the newest of them upstream. Keys, collections and the keys of chats may be
any text, and both stores may share a namespace. Several processes may use them at once. On a plain BotWire, which has
no conditional writes, one of two that change a chat at the same moment may lose its change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from botwired import Memory
from botwired._log import Log
from botwired._parts import Documents
from botwired._port import Blocking, complete

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.llms import ChatMessage
    from llama_index.core.storage.chat_store import BaseChatStore
    from llama_index.core.storage.kvstore.types import DEFAULT_BATCH_SIZE, DEFAULT_COLLECTION, BaseKVStore
except ImportError as e:
    raise ImportError("botwired.llama_index needs llama-index-core: pip install 'botwired[llama-index]'") from e

__all__ = ["MemoryChatStore", "MemoryKVStore"]

# No collection's prefix begins with these: a collection's key always has a colon, and these have none.
_PARTS = "/parts/"
_CHATS = "/chats/"

# The names of chats end with this, and those of their segments do not.
_CHAT_END = "/"

# LOGS bounds the chats of which a store keeps the older messages in its own memory.
LOGS = 64


class MemoryKVStore(BaseKVStore):
    """Values by key, in collections. Threads may share it. The asynchronous methods work in threads."""

    def __init__(self, memory: Memory) -> None:
        """Make a store. Nothing is read yet."""
        self._port = Blocking(memory)
        self._documents = Documents(self._port, lambda name: _PARTS + name)

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Write a value, whatever there was."""
        complete(self._documents.put(_prefix(collection) + key, val))

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Write many values, `batch_size` at a time."""
        with ThreadPoolExecutor(max(1, batch_size)) as pool:
            for written in [pool.submit(self.put, key, val, collection) for key, val in dict(kv_pairs).items()]:
                written.result()

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """Return a value, or None if there is none."""
        document = complete(self._documents.load(_prefix(collection) + key))
        return None if document is None else document.value

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Return all values of a collection by key."""
        prefix = _prefix(collection)
        keys = complete(self._port.list_keys(prefix))
        documents = complete(self._documents.load_all(keys))
        return {
            key.removeprefix(prefix): document.value for key, document in zip(keys, documents, strict=True) if document
        }

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Delete a value, and report whether there was one."""
        return complete(self._documents.remove(_prefix(collection) + key))

    async def aput(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Write a value, whatever there was."""
        await asyncio.to_thread(self.put, key, val, collection)

    async def aput_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Write many values, `batch_size` at a time."""
        await asyncio.to_thread(self.put_all, kv_pairs, collection, batch_size)

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """Return a value, or None if there is none."""
        return await asyncio.to_thread(self.get, key, collection)

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Return all values of a collection by key."""
        return await asyncio.to_thread(self.get_all, collection)

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Delete a value, and report whether there was one."""
        return await asyncio.to_thread(self.delete, key, collection)


class MemoryChatStore(BaseChatStore):
    """The messages of chats. Threads may share it. The asynchronous methods work in threads."""

    _memory: Memory = PrivateAttr()
    _log: Callable[[str], Log] = PrivateAttr()

    def __init__(self, memory: Memory) -> None:
        """Make a store. Nothing is read yet."""
        super().__init__()
        self._memory = memory
        self._log = lru_cache(LOGS)(lambda key: Log(memory, _CHATS + key + _CHAT_END))

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex knows the class."""
        return "MemoryChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Have a chat hold these messages and no others."""
        self._log(key).replace(map(_dump, messages))

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages of a chat, the oldest first."""
        return _validate(self._log(key).read())

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Add a message at the end, or before the one at `idx`, as a list's insert does."""
        if idx is None:
            self._log(key).append([_dump(message)])
        else:
            place = idx
            self._log(key).update(lambda messages: messages.insert(place, _dump(message)))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete a chat, and return the messages that it had, or None if there is none."""
        before = self._log(key).update(lambda messages: messages.clear())
        if not before:
            self._log(key).clear()  # there may be a chat whose messages were all deleted before
        return _validate(before) or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at `idx`, and return it, or None if there is none."""
        before = self._log(key).update(lambda messages: messages.pop(idx) if _has(messages, idx) else None)
        return _validate(before)[idx] if _has(before, idx) else None

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Delete the newest message, and return it, or None if there is none."""
        raw = self._log(key).pop()
        return None if raw is None else ChatMessage.model_validate(raw)

    def get_keys(self) -> list[str]:
        """Return the keys of all chats, the latest written first."""
        names = self._memory.list_keys(_CHATS)
        return [name[len(_CHATS) : -len(_CHAT_END)] for name in names if name.endswith(_CHAT_END)]


def _prefix(collection: str) -> str:
    """Return what all keys of a collection begin with, and no others."""
    return collection.replace("%", "%25").replace(":", "%3A") + ":"


def _dump(message: ChatMessage) -> dict[str, Any]:
    return message.model_dump(mode="json")


def _validate(messages: Iterable[Any]) -> list[ChatMessage]:
    return [ChatMessage.model_validate(message) for message in messages]


def _has(messages: list[Any], idx: int) -> bool:
    return -len(messages) <= idx < len(messages)
