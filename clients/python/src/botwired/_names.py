r"""Any text as a key or a namespace of BotWire's.

BotWire takes keys of ``[a-zA-Z0-9_.-]{1,128}`` and namespaces of ``[a-zA-Z0-9_-]{1,64}``. A name within these is sent
as it is, and so is the same entry for every client. Any other name is escaped:

- The escape begins with ``_.`` (in a namespace ``__``). After it, each byte of the name's UTF-8 is itself if it is a
  letter, a digit, ``-`` or ``_`` (in a namespace no ``_``), and else ``.`` (in a namespace ``_``) and two hexadecimal
  digits: ``user:42`` is ``_.user.3A42``.
- A lone surrogate is escaped as the three bytes that UTF-8 would have for it: ``\ud83d`` is ``_..ED.A0.BD``.
- A name whose escape would be too long is ``_-`` and its SHA-256 in base64url: 45 characters. The name cannot be had
  back from that, so `_entries` keeps it in the value.
- A name that looks like one of these is escaped, too. So no two names become the same one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import NamedTuple

from botwired._values import joined


class Wire(NamedTuple):
    """A name as BotWire gets it."""

    text: str
    is_digest: bool


class Alphabet:
    """The names that BotWire takes, and the escape for all others."""

    def __init__(self, what: str, allowed: str, limit: int, mark: str, escape: str) -> None:
        self._what = what
        self._allowed = re.compile(f"[{allowed}]{{1,{limit}}}")
        self._limit = limit
        self._mark = mark
        self._escape = escape
        self._hex = re.compile(re.escape(escape).encode() + b"([0-9A-F]{2})")
        self._plain = frozenset(b for b in range(128) if re.fullmatch(f"[{allowed}]", chr(b)) and chr(b) != escape)

    def to_wire(self, name: str) -> Wire:
        """Return the name for the wire. A name that is not a str or is empty is refused."""
        if not isinstance(name, str):
            raise TypeError(f"a {self._what} must be a str, not {type(name).__name__}")
        name = str.__str__(name)  # of an Enum, format() would take the name
        if not name:
            raise ValueError(f"a {self._what} must not be empty")
        if self._is_plain(name):
            return Wire(name, False)
        escaped = self._escaped(name)
        if len(escaped) <= self._limit:
            return Wire(escaped, False)
        digest = base64.urlsafe_b64encode(hashlib.sha256(self._bytes(name)).digest())
        return Wire(_DIGEST_MARK + digest.rstrip(b"=").decode(), True)

    def from_wire(self, text: str) -> str:
        """Return the name that `to_wire` has made this text of; a text that it cannot have made is its own name."""
        name = self._unescaped(text)
        return text if name is None else name

    def _escaped(self, name: str) -> str:
        return self._mark + "".join(chr(b) if b in self._plain else f"{self._escape}{b:02X}" for b in self._bytes(name))

    def _unescaped(self, text: str) -> str | None:
        """Return the name that `_escaped` has made this text of, if it is a name that needed that."""
        if not text.startswith(self._mark):
            return None
        body = text.removeprefix(self._mark).encode()
        try:
            name = self._hex.sub(lambda found: bytes.fromhex(found[1].decode()), body).decode(errors="surrogatepass")
        except UnicodeDecodeError:
            return None
        return name if name and self._escaped(name) == text and not self._is_plain(name) else None

    def _is_plain(self, name: str) -> bool:
        """Report whether a name is sent as it is."""
        return bool(self._allowed.fullmatch(name)) and not is_digest(name) and self._unescaped(name) is None

    def _bytes(self, name: str) -> bytes:
        return joined(name).encode(errors="surrogatepass")


_DIGEST_MARK = "_-"
_DIGEST = re.compile("_-[a-zA-Z0-9_-]{43}")


def is_digest(text: str) -> bool:
    """Report whether a key on the wire is a digest: its value has the name in it."""
    return _DIGEST.fullmatch(text) is not None


KEYS = Alphabet("key", "a-zA-Z0-9_.-", 128, "_.", ".")
NAMESPACES = Alphabet("namespace", "a-zA-Z0-9_-", 64, "__", "_")
