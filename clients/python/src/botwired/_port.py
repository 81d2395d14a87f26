"""One implementation of an adapter's rules, for Memory and AsyncMemory.

The rules are coroutines over a Port. With an AsyncMemory behind it they run in the caller's event loop. With a Memory
behind it they never suspend, and complete() runs them without one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

from botwired import AsyncMemory, Memory, _turns
from botwired._entries import ANY, Entry, IfVersion, Written
from botwired._retry import Contention
from botwired.errors import Conflict, Unavailable

T = TypeVar("T")

# AT_ONCE bounds the requests that one call makes at the same time.
AT_ONCE = 8

# CONTENDED_SECONDS is how long a change is tried again that others are faster with.
CONTENDED_SECONDS = 30.0


def left(written: Written) -> IfVersion:
    """Return the version that a write has left; "" if a botwired does not say, and ANY if a plain BotWire does not."""
    return ANY if written.version is None else written.version


class _Contentions:
    """The changes of a port's entries that others were faster with, and that are tried again."""

    def __init__(self) -> None:
        self._of: dict[str, Contention] = {}

    def made(self, key: str) -> None:
        self._of.pop(key, None)

    def pause_after(self, key: str, conflict: Conflict) -> float:
        for given_up in [each for each, contention in list(self._of.items()) if contention.is_over()]:
            self.made(given_up)
        contention = self._of.setdefault(key, Contention(key, CONTENDED_SECONDS))
        try:
            return contention.pause_after(conflict)
        except Unavailable:
            self.made(key)
            raise


def complete(rules: Coroutine[Any, Any, T]) -> T:
    """Run rules over a Blocking port to their end."""
    try:
        rules.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    rules.close()
    raise RuntimeError("rules over a blocking port have waited for an event loop")


def with_state(memory: Memory | AsyncMemory, result: str) -> str:
    """Return a tool's result for a model, which is to know the memory's state first."""
    return f"{memory.state}\n{result}" if memory.state else result


class Port(Protocol):
    """The operations of a memory that an adapter needs."""

    async def entry(self, key: str) -> Entry | None: ...

    async def entries(self, keys: Sequence[str]) -> list[Entry | None]:
        """Read many entries, several at a time."""

    async def known(self, key: str) -> Entry | None:
        """Read an entry of which the daemon has a copy. None: it has none, or there is no entry."""

    async def list_keys(self, prefix: str) -> list[str]: ...

    def turn(self, key: str) -> AbstractAsyncContextManager[None]:
        """Let those in this process who change an entry take turns.

        A plain BotWire has nothing else that keeps them apart. With versions, it saves them conflicts.
        """

    async def set(self, key: str, value: Any) -> None: ...

    async def swap(self, key: str, value: Any, if_version: IfVersion) -> IfVersion:
        """Write on a condition, or raise Conflict. A plain BotWire has no conditions, and writes in any case.

        The result is the new version, "" if a botwired does not tell it, and ANY if a plain BotWire tells none.
        After a Conflict it pauses, longer each time, and after many in a row it raises Unavailable.
        """

    async def delete(self, key: str, if_version: IfVersion = ANY) -> bool:
        """Delete on a condition, or raise Conflict. The result is whether there was an entry."""


class Blocking:
    """The port of a Memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._contentions = _Contentions()

    async def entry(self, key: str) -> Entry | None:
        return self._memory.entry(key)

    async def entries(self, keys: Sequence[str]) -> list[Entry | None]:
        if len(keys) <= 1:
            return [self._memory.entry(key) for key in keys]
        with ThreadPoolExecutor(min(AT_ONCE, len(keys))) as pool:
            return list(pool.map(self._memory.entry, keys))

    async def known(self, key: str) -> Entry | None:
        return self._memory._transport.run(self._memory._rules.known(key))

    async def list_keys(self, prefix: str) -> list[str]:
        return self._memory.list_keys(prefix)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        with _turns.for_thread((self._memory.base_url, self._memory.namespace, key)):
            yield

    async def set(self, key: str, value: Any) -> None:
        self._memory.set(key, value)

    async def swap(self, key: str, value: Any, if_version: IfVersion) -> IfVersion:
        try:
            written = self._memory._transport.run(self._memory._rules.swap(key, value, if_version))
        except Conflict as conflict:
            self._pause_after(key, conflict)
            raise
        self._contentions.made(key)
        return left(written)

    async def delete(self, key: str, if_version: IfVersion = ANY) -> bool:
        try:
            was_there = self._memory.delete(key, if_version=if_version)
        except Conflict as conflict:
            self._pause_after(key, conflict)
            raise
        self._contentions.made(key)
        return was_there

    def _pause_after(self, key: str, conflict: Conflict) -> None:
        time.sleep(self._contentions.pause_after(key, conflict))


class Native:
    """The port of an AsyncMemory."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory
        self._contentions = _Contentions()

    async def entry(self, key: str) -> Entry | None:
        return await self._memory.entry(key)

    async def entries(self, keys: Sequence[str]) -> list[Entry | None]:
        free = asyncio.Semaphore(AT_ONCE)

        async def one(key: str) -> Entry | None:
            async with free:
                return await self._memory.entry(key)

        return list(await asyncio.gather(*map(one, keys)))

    async def known(self, key: str) -> Entry | None:
        return await self._memory._transport.run(self._memory._rules.known(key))

    async def list_keys(self, prefix: str) -> list[str]:
        return await self._memory.list_keys(prefix)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        async with _turns.for_task((self._memory.base_url, self._memory.namespace, key)):
            yield

    async def set(self, key: str, value: Any) -> None:
        await self._memory.set(key, value)

    async def swap(self, key: str, value: Any, if_version: IfVersion) -> IfVersion:
        try:
            written = await self._memory._transport.run(self._memory._rules.swap(key, value, if_version))
        except Conflict as conflict:
            await asyncio.sleep(self._contentions.pause_after(key, conflict))
            raise
        self._contentions.made(key)
        return left(written)

    async def delete(self, key: str, if_version: IfVersion = ANY) -> bool:
        try:
            was_there = await self._memory.delete(key, if_version=if_version)
        except Conflict as conflict:
            await asyncio.sleep(self._contentions.pause_after(key, conflict))
            raise
        self._contentions.made(key)
        return was_there


class Runner:
    """The blocking and the asynchronous methods of one object, over a Memory or an AsyncMemory.

    Over a Memory, the asynchronous methods run in a thread. An AsyncMemory has no blocking methods.
    """

    def __init__(self, memory: Memory | AsyncMemory) -> None:
        self.port: Port
        if isinstance(memory, AsyncMemory):
            self.port, self._is_async = Native(memory), True
        elif isinstance(memory, Memory):
            self.port, self._is_async = Blocking(memory), False
        else:
            raise TypeError(f"memory must be a Memory or an AsyncMemory, not {type(memory).__name__}")

    def run(self, rules: Coroutine[Any, Any, T]) -> T:
        """Run rules in the caller's thread."""
        if self._is_async:
            rules.close()
            raise TypeError("an AsyncMemory has only asynchronous methods: await those, or pass a Memory")
        return complete(rules)

    async def arun(self, rules: Coroutine[Any, Any, T]) -> T:
        """Run rules without holding up the event loop."""
        return await (rules if self._is_async else asyncio.to_thread(complete, rules))
