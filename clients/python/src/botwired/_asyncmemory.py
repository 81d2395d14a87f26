"""AsyncMemory: the asynchronous client."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, NoReturn

import httpx

from botwired._address import Address
from botwired._async import AsyncTransport
from botwired._entries import ANY, Entry, IfVersion, Revision, Written
from botwired._rules import Rules, author_of, check_seconds, refuse
from botwired._turns import for_task


class AsyncMemory:
    """A `Memory` whose methods are awaited, for asyncio. The doc strings of `Memory` hold here, too.

        async with AsyncMemory("my-agent") as memory:
            await memory.set("user:42:name", "Ada")

    Tasks may share an AsyncMemory, and so may event loops: each has connections of its own.
    """

    def __init__(
        self,
        namespace: str,
        base_url: str | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        author: str | None = None,
        patience: float = 30.0,
        http: httpx.AsyncClient | None = None,
        **unknown: NoReturn,
    ) -> None:
        """Make an AsyncMemory. Nothing is connected yet. The arguments are those of `Memory`."""
        refuse(unknown)
        check_seconds(timeout=timeout, patience=patience)
        self._address = Address.parse(base_url, token)
        self._rules = Rules(namespace, patience, self._address.shown, author_of(author, self._address.is_local))
        self._transport = AsyncTransport(self._address, timeout, http)

    @property
    def namespace(self) -> str:
        """The name that the AsyncMemory was made with."""
        return self._rules.namespace

    @property
    def base_url(self) -> str:
        """The URL that requests go to, without a token."""
        return self._address.shown

    @property
    def state(self) -> str | None:
        """What the daemon has said last of this memory, in a sentence for the agent. None: all is well."""
        return self._transport.state

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or `default` if the entry does not exist."""
        return await self._transport.run(self._rules.get(key, default))

    async def entry(self, key: str) -> Entry | None:
        """Return the value with its version and times, or None if the entry does not exist."""
        return await self._transport.run(self._rules.entry(key))

    async def exists(self, key: str) -> bool:
        """Report whether the entry exists, whatever its value."""
        return await self._transport.run(self._rules.exists(key))

    async def set(
        self,
        key: str,
        value: Any,
        *,
        if_version: IfVersion | None = ANY,
        wait: float | None = None,
        **unknown: NoReturn,
    ) -> Written:
        """Write a value: see `Memory.set`."""
        refuse(unknown)
        return await self._transport.run(self._rules.set(key, value, if_version, wait))

    async def delete(self, key: str, *, if_version: IfVersion | None = ANY, wait: float | None = None) -> bool:
        """Delete the entry. False: it did not exist."""
        return await self._transport.run(self._rules.delete(key, if_version, wait))

    async def update(
        self, key: str, change: Callable[[Any], Any] | Callable[[Any], Awaitable[Any]], *, default: Any = None
    ) -> Any:
        """Write `change(value)` so that no other caller's write is lost: see `Memory.update`. `change` may be async."""
        steps = self._rules.update(key, change, default)
        async with for_task((self.base_url, self.namespace, key)):
            return await self._transport.run(steps)

    async def history(self, key: str) -> builtins.list[Revision]:
        """Return the states that the entry has had, the present one first: see `Memory.history`."""
        return await self._transport.run(self._rules.history(key))

    async def undo(self, key: str, to: Revision | str | int | None = None) -> Revision:
        """Write an earlier state of the entry again, and return it: see `Memory.undo`."""
        return await self._transport.run(self._rules.undo(key, to))

    async def list_keys(self, prefix: str = "") -> builtins.list[str]:
        """Return the keys that begin with `prefix`, the latest written first: see `Memory.list_keys`."""
        return await self._transport.run(self._rules.list_keys(prefix))

    async def keys(self, prefix: str = "") -> builtins.list[str]:
        """Return the same as `list_keys`."""
        return await self.list_keys(prefix)

    async def list(self, prefix: str = "") -> builtins.list[str]:
        """Return the same as `list_keys`."""
        return await self.list_keys(prefix)

    async def items(self, prefix: str = "") -> AsyncIterator[tuple[str, Any]]:
        """Yield the keys and values of `list_keys`. Each value is read in its turn; deleted ones are left out."""
        for key in await self.list_keys(prefix):
            entry = await self.entry(key)
            if entry is not None:
                yield key, entry.value

    async def clear(self, prefix: str = "") -> int:
        """Delete the entries of `list_keys`, and return how many it has deleted."""
        return sum([await self.delete(key) for key in await self.list_keys(prefix)])

    async def close(self) -> None:
        """Close the connections of this event loop. The next call makes new ones."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __contains__(self, key: object) -> bool:
        raise TypeError("an AsyncMemory must be awaited: await memory.exists(key), not key in memory")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.namespace!r}, base_url={self.base_url!r})"
