"""Entries, their versions, and what a write is answered with."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from botwired._names import KEYS, is_digest
from botwired._steps import Answer
from botwired._values import decode, encode


class Version(Enum):
    """Conditions of a write that are not an entry's version."""

    ANY = "any"
    ABSENT = "absent"


ANY: Final = Version.ANY
"""As `if_version`: write whatever is there."""
ABSENT: Final = Version.ABSENT
"""As `if_version`: write only if the entry does not exist."""

IfVersion: TypeAlias = str | Literal[Version.ANY, Version.ABSENT]


@dataclass(frozen=True)
class Entry:
    """An entry as it was read."""

    key: str
    value: Any
    text: str
    """The value as BotWire stores it: what every other client sees."""
    version: str | None
    """Names the write that made the value, for `if_version`. None if the server keeps no versions; "" if a gateway on
    the way has dropped it: then no condition can be sent."""
    created_at: float
    """Unix seconds."""
    updated_at: float
    """Unix seconds."""


@dataclass(frozen=True)
class Written:
    """The answer to an acknowledged write."""

    version: str | None
    """Of the entry after this write, for `if_version`. None or "" if the answer has none."""
    state: str | None
    """`pending`: durable in the daemon, and not confirmed upstream. `settled`: upstream has it. With `wait=` also
    `superseded` (a later write of another host stays, and the history has this one as `lost`) and `dead` (upstream has
    refused it for good: see `botwired dead-letters`). None if no botwired has answered."""
    seq: int | None = None
    """The number of the write's receipt: `/_botwired/receipts/SEQ` tells what has become of it."""

    if not TYPE_CHECKING:  # checkers are to go on complaining about this await

        def __await__(self) -> NoReturn:
            raise TypeError("a Memory's methods are not awaited: 'await' needs an AsyncMemory")


@dataclass(frozen=True)
class Revision:
    """A state that an entry has had."""

    name: str | None
    """As `to` of an undo. None if it is not a state to go back to."""
    state: str
    """`pending`, `settled`, `superseded`, `dead`, `lost` (in a conflict of two hosts: the other one's later write
    stays), `shown`, `gone` (upstream has ceased to hold it), `absent`, or `unsealed` (older than the seal)."""
    exists: bool
    """False: it is a delete, or upstream did not hold the entry."""
    value: Any
    """None where the entry does not exist."""
    author: str
    """The program that wrote it, by its own word; empty if unknown."""
    host: str
    """The daemon that wrote it; empty if unknown."""
    here: bool
    """This daemon wrote it."""
    written_at: float
    """Unix seconds."""


def revisions_of(answer: Answer, wire_key: str) -> list[Revision]:
    """Return the states that the daemon lists."""
    match answer.json():
        case {"revisions": [*rows]}:
            return [revision_of(row, answer, wire_key) for row in rows]
    raise answer.foreign()


def revision_of(row: Any, answer: Answer, wire_key: str) -> Revision:
    """Return a state of a daemon's answer."""
    match row:
        case {
            "revision": int() | None as revision,
            "state": str(state),
            "value": str() | None as stored,
            "updated_at": float() | int() as written,
            "host": str(host),
            "here": bool(here),
            "seq": int() | None as seq,
        }:
            text = unwrap(wire_key, stored)[1] if stored is not None and is_digest(wire_key) else stored
            name = str(revision) if revision is not None else None if seq is None else f"w{seq}"
            value = None if text is None else decode(text)
            author, at = str(row.get("author", "")), _seconds(written, answer)
            return Revision(name, state, text is not None, value, author, host, here, at)
    raise answer.foreign()


def is_of_botwired(answer: Answer) -> bool:
    """Report whether an answer shows that it is a botwired's. A gateway may have dropped what would show it."""
    headers = answer.headers
    return "botwired" in headers.get("cache-status", "") or any(name.startswith("botwired-") for name in headers)


def tag_of(answer: Answer, has_versions: bool) -> str | None:
    """Return the tag in an answer. None: a plain BotWire has none. "": a botwired's is lost on the way.

    Gateways change or drop the ETag of an answer that they compress, and leave alone the header of botwired's own.
    """
    tag = answer.headers.get("botwired-etag") or answer.headers.get("etag")
    return "" if tag is None and has_versions else tag


def entry_of(answer: Answer, wire_key: str, has_versions: bool) -> Entry:
    """Return the entry of a 200 to a GET."""
    match answer.json():
        case {"value": str(text), "created_at": float() | int() as created, "updated_at": float() | int() as updated}:
            name = KEYS.from_wire(wire_key)
        case _:
            raise answer.foreign()
    if is_digest(wire_key):
        name, text = unwrap(wire_key, text)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise answer.foreign() from None
    times = _seconds(created, answer), _seconds(updated, answer)
    return Entry(name, decode(text), text, tag_of(answer, has_versions), *times)


def _seconds(value: float, answer: Answer) -> float:
    """Return Unix seconds of which a date can be made, as adapters do."""
    try:
        datetime.fromtimestamp(value, timezone.utc)
    except (OSError, OverflowError, ValueError):
        raise answer.foreign() from None
    return float(value)


def keys_of(answer: Answer) -> list[str]:
    """Return the keys of a 200 to a LIST, as they are on the wire."""
    return [row["key"] for row in _rows("keys", answer)]


def page_of(answer: Answer, after: str) -> tuple[list[str], str, bool]:
    """Return a page of the daemon's own listing: the keys, after which the next one begins, and whether it has all."""
    keys = [row["key"] for row in _rows("entries", answer) if row.get("op") != "delete"]
    page = answer.json()
    match page.get("next"):
        case None:
            following = ""
        case str(following) if following > after and following.isascii():
            pass
        case _:  # pages that go round in a circle have no end
            raise answer.foreign()
    return keys, following, page.get("complete") is True


def _rows(name: str, answer: Answer) -> list[dict[str, Any]]:
    match answer.json().get(name):
        case [*rows] if all(isinstance(row, dict) and isinstance(row.get("key"), str) for row in rows):
            return rows
    raise answer.foreign()


def seen(entry: Entry | None) -> IfVersion:
    """Return the condition that the entry is still as it was read. A plain BotWire keeps no versions: ANY.

    It is "" if a gateway has dropped the version: then the entry can be read, and a swap says why it cannot be written.
    """
    if entry is None:
        return ABSENT
    return ANY if entry.version is None else entry.version


def written_of(answer: Answer, has_versions: bool) -> Written:
    """Return what the 200 to a PUT says."""
    if answer.json().get("stored") is not True:
        raise answer.foreign()
    state, _, rest = answer.headers.get("botwired-write", "").partition(";")
    seq = re.search(r"\bseq=(\d{1,20})\b", rest)
    return Written(tag_of(answer, has_versions), state or None, int(seq[1]) if seq else None)


def wrap(name: str, text: str) -> str:
    """Return the text to store under a digest: a line of JSON with the key's name, and then the value's text as it is.

    In JSON, each quotation mark of the text would take two of BotWire's 100,000 characters.
    """
    return encode({"key": name}) + "\n" + text


def unwrap(wire_key: str, stored: str) -> tuple[str, str]:
    """Return the name and the text of what `wrap` has made; another client's text has the key for a name."""
    line, _, text = stored.partition("\n")
    try:
        match json.loads(line):
            case {"key": str(name)} if name and KEYS.to_wire(name).text == wire_key:
                return name, text
    except (ValueError, RecursionError):
        pass
    return wire_key, stored
