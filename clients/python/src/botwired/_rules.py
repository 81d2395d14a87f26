"""The operations of a memory, as steps: the one implementation behind Memory and AsyncMemory."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import sys
import uuid
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

from botwired._entries import (
    ABSENT,
    ANY,
    Entry,
    IfVersion,
    Revision,
    Written,
    entry_of,
    is_of_botwired,
    keys_of,
    page_of,
    revision_of,
    revisions_of,
    seen,
    tag_of,
    wrap,
    written_of,
)
from botwired._names import KEYS, NAMESPACES, is_digest
from botwired._retry import Contention, Outcome, contact_with, exchange
from botwired._steps import Answer, Call, Lost, Request, Sleep, Steps
from botwired._turns import waited_since
from botwired._values import encode
from botwired.errors import Conflict, Error, Refused, Unavailable, Unsupported

_LIST_LIMIT = 1000
"""BotWire lists no more keys of a namespace."""
_PAGE = 10_000
"""The daemon's own listing gives no more keys at a time."""
_AUTHOR_LIMIT = 64
_SENDABLE = re.compile("[!-~]*")
"""What a version may have. No header begins or ends with a space."""


class Incomplete(UserWarning):
    """A list of keys may lack some."""


class Rules:
    """The operations on one namespace. It keeps no state but what it has learned of the server."""

    def __init__(self, namespace: str, patience: float, server: str, author: str) -> None:
        self.namespace = namespace
        self._namespace = NAMESPACES.to_wire(namespace).text
        self._patience = patience
        self._server = server  # its URL, for people
        self._author = {"botwired-author": author} if author else {}
        self._has_versions = False
        self._contact = contact_with(server)

    def entry(self, key: str) -> Steps[Entry | None]:
        """Read an entry. None: it does not exist."""
        return (yield from self._read(KEYS.to_wire(key).text))

    def known(self, key: str) -> Steps[Entry | None]:
        """Read an entry of which the daemon has a copy, once and without a wait for upstream."""
        wire_key = KEYS.to_wire(key).text
        headers = {"cache-control": "only-if-cached, max-stale"}
        attempt: Answer | Lost = yield Request("GET", self._path(wire_key), headers)
        if not isinstance(attempt, Answer) or attempt.status != 200:
            return None
        return entry_of(self._about(wire_key, attempt), wire_key, self._has_versions)

    def get(self, key: str, default: Any) -> Steps[Any]:
        """Read a value."""
        entry = yield from self.entry(key)
        return default if entry is None else entry.value

    def exists(self, key: str) -> Steps[bool]:
        """Report whether an entry exists."""
        entry = yield from self.entry(key)
        return entry is not None

    def set(self, key: str, value: Any, if_version: IfVersion | None, wait: float | None) -> Steps[Written]:
        """Write a value."""
        wire_key, body = KEYS.to_wire(key).text, _body(key, value)
        condition = yield from self._condition(wire_key, if_version)
        return (yield from self._put(key, body, condition, if_version, wait))

    def swap(self, key: str, value: Any, if_version: IfVersion) -> Steps[Written]:
        """Write a value on a condition of a read. A plain BotWire ignores it."""
        return (yield from self._put(key, _body(key, value), _condition_of(if_version), if_version, None))

    def _put(
        self, key: str, body: bytes, condition: dict[str, str], if_version: IfVersion | None, wait: float | None
    ) -> Steps[Written]:
        wire_key = KEYS.to_wire(key).text
        headers = {"content-type": "application/json", **self._naming(), **condition, **_prefer(wait)}
        outcome = yield from self._exchange(Request("PUT", self._path(wire_key), headers, body, wait or 0))
        if outcome.answer.status == 412:
            raise _conflict(key, outcome, (yield from self._read(wire_key)), if_version)
        if outcome.answer.status == 404:
            raise Refused(404, outcome.answer.detail)
        return written_of(self._about(wire_key, outcome.answer), self._has_versions)

    def delete(self, key: str, if_version: IfVersion | None, wait: float | None) -> Steps[bool]:
        """Delete an entry. False: it did not exist."""
        if if_version is ABSENT:
            raise ValueError("delete takes no if_version=ABSENT: there would be nothing to delete")
        wire = KEYS.to_wire(key)
        condition = yield from self._condition(wire.text, if_version)
        headers = {**self._naming(), **condition, **_prefer(wait)}
        outcome = yield from self._exchange(Request("DELETE", self._path(wire.text), headers, None, wait or 0))
        if outcome.answer.status == 404:
            _check_absence(outcome.answer)
            if outcome.is_repeated and not self._has_versions:
                yield from self._read(wire.text)
                if not self._has_versions:
                    raise Unavailable(f"the answer to the delete of {key!r} was lost: it may have existed until then")
            return False
        if outcome.answer.status == 412:
            raise _conflict(key, outcome, (yield from self._read(wire.text)), if_version)
        if self._about(wire.text, outcome.answer).json().get("deleted") is not True:
            raise outcome.answer.foreign()
        return True

    def update(self, key: str, change: Callable[[Any], Any], default: Any) -> Steps[Any]:
        """Read, change, and write if nobody else has written meanwhile; else once more."""
        turns = Contention(key, self._patience)
        while True:
            entry = yield from self._read(KEYS.to_wire(key).text)
            old = copy.deepcopy(default) if entry is None else entry.value
            new = yield Call(change, old)
            if new is None:
                raise TypeError("the function that update calls must return the new value, and has returned None")
            if entry is not None and encode(new) == entry.text:
                return new
            try:
                yield from self.swap(key, new, seen(entry))
            except Conflict as conflict:
                yield Sleep(turns.pause_after(conflict))
                continue
            return new

    def history(self, key: str) -> Steps[list[Revision]]:
        """List the states that an entry has had, the present one first."""
        answer, wire_key = yield from self._states(key)
        return [] if answer.status == 404 else revisions_of(answer, wire_key)

    def undo(self, key: str, to: Revision | str | int | None) -> Steps[Revision]:
        """Write an earlier state again. It is conditional: a second attempt would undo the first."""
        name = to.name if isinstance(to, Revision) else to
        if to is not None and name is None:
            raise ValueError("no undo leads to this state: it has no name")
        shown, wire_key = yield from self._states(key)
        if shown.status == 404:
            raise Refused(404, shown.detail)
        more = {} if name is None else {"to": name}
        headers = {**self._author, **given("if-match", tag_of(shown, True) or _lost_tag())}
        outcome = yield from self._exchange(Request("POST", self._surface("undo", wire_key, **more), headers))
        if outcome.answer.status == 412:
            present = yield from self._read(wire_key)
            if outcome.is_repeated:
                raise Unavailable(
                    f"the answer to an undo of {key!r} was lost, and the entry has changed since: "
                    "read it to see whether the undo was made"
                )
            raise _conflict(key, outcome, present, None)
        if outcome.answer.status == 404:
            raise Refused(404, outcome.answer.detail)
        return revision_of(outcome.answer.json().get("now"), outcome.answer, wire_key)

    def _states(self, key: str) -> Steps[tuple[Answer, str]]:
        """Ask for the states of an entry. Also returns the key on the wire."""
        wire_key = KEYS.to_wire(key).text
        answer = (yield from self._exchange(Request("GET", self._surface("revisions", wire_key)))).answer
        if answer.status == 404 and answer.detail == "Not Found":
            raise Unsupported("a history needs a botwired: the server at this URL keeps no versions")
        return answer, wire_key

    def _surface(self, path: str, wire_key: str, **more: str | int) -> str:
        return f"/_botwired/{path}?{urlencode({'namespace': self._namespace, 'key': wire_key, **more})}"

    def list_keys(self, prefix: str) -> Steps[list[str]]:
        """List the keys, the latest written first."""
        prefix = prefix.removesuffix("*")
        path = f"/memory/{self._namespace}?limit={_LIST_LIMIT}"
        answer = (yield from self._exchange(Request("GET", path))).answer
        if answer.status != 200:
            raise Refused(answer.status, answer.detail)
        found = keys_of(answer)
        if len(found) >= _LIST_LIMIT:
            found += yield from self._more(frozenset(found))
        elif "botwired-list" in answer.headers:
            self._warn()
        keys = []
        for wire_key in found:
            name = yield from self._name(wire_key)
            if name is not None and name.startswith(prefix):
                keys.append(name)
        return keys

    def _more(self, known: frozenset[str]) -> Steps[list[str]]:
        """Return the keys that a daemon knows beyond BotWire's list, by name."""
        more: list[str] = []
        after = ""
        while self._has_versions:
            query = urlencode({"namespace": self._namespace, "after": after, "limit": _PAGE})
            answer = (yield from self._exchange(Request("GET", f"/_botwired/entries?{query}"))).answer
            if answer.status != 200:
                break
            found, after, is_complete = page_of(answer, after)
            more += [key for key in found if key not in known]
            if not after:
                if not is_complete:
                    self._warn()
                return more
        self._warn()
        return more

    def _warn(self) -> None:
        text = f"the list of {self.namespace!r} may lack keys: BotWire lists no more than {_LIST_LIMIT:,}"
        warnings.warn(text, Incomplete, stacklevel=2)

    def _name(self, wire_key: str) -> Steps[str | None]:
        """Return the name of a key on the wire. A digest's is in its value; None: the entry is gone."""
        if not is_digest(wire_key):
            return KEYS.from_wire(wire_key)
        entry = yield from self._read(wire_key)
        return None if entry is None else entry.key

    def _read(self, wire_key: str) -> Steps[Entry | None]:
        answer = (yield from self._exchange(Request("GET", self._path(wire_key)))).answer
        if answer.status == 404:
            _check_absence(answer)
            return None
        return entry_of(self._about(wire_key, answer), wire_key, self._has_versions)

    def _about(self, wire_key: str, answer: Answer) -> Answer:
        """Return a 200 that names the entry. One that names another entry confirms nothing."""
        body = answer.json()
        if (body.get("namespace"), body.get("key")) != (self._namespace, wire_key):
            raise answer.foreign()
        return answer

    def _condition(self, wire_key: str, if_version: IfVersion | None) -> Steps[dict[str, str]]:
        """Return the headers of a condition. A server that would ignore them is not sent the write at all."""
        if if_version is ANY:
            return {}
        if if_version is None:
            raise Unsupported("if_version is None: plain BotWire keeps no versions. ANY writes on no condition")
        if if_version is not ABSENT and not (isinstance(if_version, str) and _SENDABLE.fullmatch(if_version)):
            raise TypeError(f"if_version must be an Entry's version or ABSENT, not {if_version!r}")
        if not self._has_versions:
            yield from self._read(wire_key)
        if not self._has_versions:
            raise Unsupported("if_version needs a botwired: the server at this URL keeps no versions")
        return _condition_of(if_version)

    def _naming(self) -> dict[str, str]:
        """Return the headers that name the author and the write. A daemon makes a named write once."""
        return {**self._author, **given("idempotency-key", uuid.uuid4().hex)}

    def _exchange(self, request: Request) -> Steps[Outcome]:
        outcome = yield from exchange(request, self._patience, self._server, self._contact, waited_since())
        self._has_versions = self._has_versions or is_of_botwired(outcome.answer)
        return outcome

    def _path(self, wire_key: str) -> str:
        return f"/memory/{self._namespace}/{_segment(wire_key)}"


def _segment(wire_key: str) -> str:
    """Return a key as a segment of a path. Clients and servers on the way would take `.` and `..` for folders."""
    return wire_key.replace(".", "%2E") if wire_key in (".", "..") else quote(wire_key, safe="")


def _body(key: str, value: Any) -> bytes:
    """Return the body of a PUT."""
    text = encode(value)
    stored = wrap(key, text) if KEYS.to_wire(key).is_digest else text
    return json.dumps({"value": stored}, ensure_ascii=False, separators=(",", ":")).encode()


def _condition_of(if_version: IfVersion) -> dict[str, str]:
    """Return the headers of a condition."""
    if if_version is ANY:
        return {}
    return given("if-none-match", "*") if if_version is ABSENT else given("if-match", if_version or _lost_tag())


def _prefer(wait: float | None) -> dict[str, str]:
    """Return the header that asks the daemon to wait for upstream (RFC 7240), in whole seconds."""
    if wait is None:
        return {}
    check_seconds(wait=wait)
    return {"prefer": f"wait={math.ceil(wait)}"}


def _check_absence(answer: Answer) -> None:
    """Refuse a 404 that does not speak of the key: another server at this URL knows nothing of entries."""
    if not answer.detail.startswith("Key not found"):
        raise Error(f"the answer is not one of BotWire's: {answer.detail} (HTTP 404)")


def given(name: str, value: str) -> dict[str, str]:
    """Return a header that a gateway may drop, and the daemon's own that says the same."""
    return {name: value, "botwired-" + name: value}


def _lost_tag() -> NoReturn:
    raise Error(
        "the server is a botwired, and its answers have no version: a gateway on the way drops the headers ETag and "
        "Botwired-ETag. Have it leave them, or write on no condition (if_version=ANY)"
    )


def _conflict(key: str, outcome: Outcome, present: Entry | None, sent: IfVersion | None) -> Error:
    """Return the error of a 412. If the entry is as the condition names it, no repetition would help."""
    if isinstance(sent, str) and present is not None and present.version == sent:
        return Error(
            f"{key!r} is not written, although it still has the version {sent}: a gateway on the way changes the "
            "conditions of requests. Have it leave the headers If-Match and Botwired-If-Match alone"
        )
    return Conflict(f"{key!r} is not written: {outcome.answer.detail}", None if present is None else present.version)


def author_of(author: str | None, is_local: bool) -> str:
    """Return the name of this program in the history; "" if it has none. Only a local server learns the script's."""
    if author is not None:
        if not (0 < len(author) <= _AUTHOR_LIMIT and author.isprintable()):
            raise ValueError(f"author must have 1 to {_AUTHOR_LIMIT} printable characters, not {author!r}")
        return author
    script = sys.argv[0] if is_local and getattr(sys, "argv", None) else ""
    name = os.environ.get("BOTWIRED_AUTHOR") or _program(script)
    return re.sub(r"[^ -~]", "?", name).strip()[:_AUTHOR_LIMIT]


def _program(script: str) -> str:
    """Return the name of a script, or of the package that python -m runs. python -c and a prompt have none."""
    path = Path(script)
    name = path.parent.name if path.name == "__main__.py" else path.name.removesuffix(".py")
    return "" if name.startswith("-") else name


def check_seconds(**times: float) -> None:
    """Refuse a time that is no number of seconds, such as None: the first request would fail for it, or not end."""
    for name, value in times.items():
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number of seconds, not {value!r}")
        if not value >= 0 or (name == "timeout" and value == 0) or (name == "wait" and math.isinf(value)):
            raise ValueError(f"{name} must be a number of seconds, not {value!r}")


def refuse(unknown: Mapping[str, Any]) -> None:
    """Refuse arguments that do not exist. BotWire takes a ttl and ignores it: the caller would never know."""
    if any(name.startswith("ttl") for name in unknown):
        raise TypeError(
            "there is no ttl: BotWire ignores it, and keeps the value. Store the time of expiry in the value, and "
            "compare it when you read; or delete the entry"
        )
    if unknown:
        raise TypeError(f"there is no argument {', '.join(unknown)!r}")
