"""Memory: the blocking client."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NoReturn

import httpx

from botwired._address import Address
from botwired._entries import ANY, Entry, IfVersion, Revision, Written
from botwired._rules import Rules, author_of, check_seconds, refuse
from botwired._sync import Transport
from botwired._turns import for_thread


class Memory:
    """The entries of one namespace, by key: any JSON value under any text.

        memory = Memory("my-agent")
        memory.set("user:42:name", "Ada")
        memory.get("user:42:name")  # "Ada", in this process and the next

    Threads and forked processes may share a Memory. Every method raises an `Error`: `Unavailable` after `patience`,
    `Unauthorized`, `Refused`, `Conflict`.
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
        http: httpx.Client | None = None,
        **unknown: NoReturn,
    ) -> None:
        """Make a Memory. Nothing is connected yet.

        base_url: of the daemon, else BOTWIRE_URL, else http://127.0.0.1:2689. A user and a password in it are sent as
            Basic authorization. unix:///path is a Unix socket. Requests to loopback go through no proxy.
        token: that the daemon wants from its callers.
        author: the program's name in the history, of up to 64 characters; else BOTWIRED_AUTHOR, else the
            script's name, which is sent only to an address on this machine.
        timeout: seconds for one attempt of a request.
        patience: seconds for which a call makes attempts again, while the daemon restarts or asks to wait. Its `wait`
            is added.
        http: the client to send requests with, for proxies and certificates of your own. It stays open.
        """
        refuse(unknown)
        check_seconds(timeout=timeout, patience=patience)
        self._address = Address.parse(base_url, token)
        self._rules = Rules(namespace, patience, self._address.shown, author_of(author, self._address.is_local))
        self._transport = Transport(self._address, timeout, http)

    @property
    def namespace(self) -> str:
        """The name that the Memory was made with."""
        return self._rules.namespace

    @property
    def base_url(self) -> str:
        """The URL that requests go to, without a token."""
        return self._address.shown

    @property
    def state(self) -> str | None:
        """What the daemon has said last of this memory, in a sentence for the agent. None: all is well."""
        return self._transport.state

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or `default` if the entry does not exist."""
        return self._transport.run(self._rules.get(key, default))

    def entry(self, key: str) -> Entry | None:
        """Return the value with its version and times, or None if the entry does not exist."""
        return self._transport.run(self._rules.entry(key))

    def exists(self, key: str) -> bool:
        """Report whether the entry exists, whatever its value."""
        return self._transport.run(self._rules.exists(key))

    def __contains__(self, key: object) -> bool:
        """Report whether the entry exists: `key in memory`."""
        return isinstance(key, str) and self.exists(key)

    def set(
        self,
        key: str,
        value: Any,
        *,
        if_version: IfVersion | None = ANY,
        wait: float | None = None,
        **unknown: NoReturn,
    ) -> Written:
        """Write a value. When it returns, the daemon has it on its disk.

        if_version: an `Entry.version`, or ABSENT: write only if the entry is still that, and else raise `Conflict`. It
            holds between all callers of one daemon. None, an entry's version on plain BotWire, raises `Unsupported`.
        wait: wait up to so many seconds for upstream; `Written.state` says how far the write has come.
        """
        refuse(unknown)
        return self._transport.run(self._rules.set(key, value, if_version, wait))

    def delete(self, key: str, *, if_version: IfVersion | None = ANY, wait: float | None = None) -> bool:
        """Delete the entry. False: it did not exist. The conditions are those of `set`."""
        return self._transport.run(self._rules.delete(key, if_version, wait))

    def update(self, key: str, change: Callable[[Any], Any], *, default: Any = None) -> Any:
        """Write `change(value)` so that no other caller's write is lost, and return it.

        It calls `change` with the present value, or with a copy of `default`, and once more with the newer value
        whenever somebody else has written meanwhile: let `change` do nothing but compute. Updates of one entry take
        turns within a process; one within another that would wait for itself is refused with an `Error`. On plain
        BotWire, which keeps no versions, it reads and writes, and may undo the write of another process.
        """
        steps = self._rules.update(key, change, default)
        with for_thread((self.base_url, self.namespace, key)):
            return self._transport.run(steps)

    def history(self, key: str) -> builtins.list[Revision]:
        """Return the states that the entry has had, the present one first, as far as the daemon keeps them.

        Plain BotWire keeps none, and raises `Unsupported`.
        """
        return self._transport.run(self._rules.history(key))

    def undo(self, key: str, to: Revision | str | int | None = None) -> Revision:
        """Write the state before the present one again, or the one that `to` names, and return it.

        It is a write as any other, and the next undo takes it back. `Conflict`: somebody has written the entry
        meanwhile. `Refused` with 409: there is nothing to undo; with 404: `to` is not kept.
        """
        return self._transport.run(self._rules.undo(key, to))

    def list_keys(self, prefix: str = "") -> builtins.list[str]:
        """Return the keys that begin with `prefix`, the latest written first. A `*` at its end says no more.

        A warning of the category `Incomplete` says that some may be missing: BotWire lists no more than 1,000, and the
        daemon can only add those that it has seen.
        """
        return self._transport.run(self._rules.list_keys(prefix))

    def keys(self, prefix: str = "") -> builtins.list[str]:
        """Return the same as `list_keys`."""
        return self.list_keys(prefix)

    def list(self, prefix: str = "") -> builtins.list[str]:
        """Return the same as `list_keys`."""
        return self.list_keys(prefix)

    def items(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the keys and values of `list_keys`. Each value is read in its turn; deleted ones are left out."""
        for key in self.list_keys(prefix):
            entry = self.entry(key)
            if entry is not None:
                yield key, entry.value

    def clear(self, prefix: str = "") -> int:
        """Delete the entries of `list_keys`, and return how many it has deleted."""
        return sum(self.delete(key) for key in self.list_keys(prefix))

    def close(self) -> None:
        """Close the connections. The next call makes new ones."""
        self._transport.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.namespace!r}, base_url={self.base_url!r})"
