"""The steps that the rules ask of a transport: an operation of the memory is a generator of steps.

The rules of `_rules` yield steps and are sent what came of them, and so know neither sockets nor event loops. `Memory`
carries the steps out with a blocking client, `AsyncMemory` with an asynchronous one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from botwired.errors import Error

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """One attempt of a request. It is answered with an Answer, or with Lost."""

    method: str
    path: str
    """Escaped, with the query."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wait: float = 0
    """Seconds for which the server may wait by itself, on top of the timeout of an attempt."""


@dataclass(frozen=True)
class Answer:
    """The server's answer. The names in `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body, which must be a JSON object: every answer of BotWire's is one."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise self.foreign()
        return body

    def foreign(self) -> Error:
        """Return the error of an answer that BotWire does not give."""
        return Error(f"the answer is not one of BotWire's (HTTP {self.status}): is something else at this URL?")

    @property
    def detail(self) -> str:
        """The reason of an error, in the server's words."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError):
            body = None
        detail = body.get("detail") if isinstance(body, dict) else None
        if detail is None:
            return f"the server gives no reason that botwired understands: {self.body[:200]!r}"
        return detail if isinstance(detail, str) else json.dumps(detail)


@dataclass(frozen=True)
class Lost:
    """An attempt without an answer."""

    reason: str
    was_sent: bool
    """The server may have got the request, and may have carried it out."""
    error: Exception | None = None
    """The client's own."""


@dataclass(frozen=True)
class Sleep:
    """A pause."""

    seconds: float


@dataclass(frozen=True)
class Call:
    """A call of the user's function, which may be asynchronous in an AsyncMemory. It is answered with the result."""

    function: Callable[[Any], Any]
    argument: Any


Steps: TypeAlias = Generator[Request | Sleep | Call, Any, T]
