"""The rule that says which attempts are made again, and when."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass

from botwired._steps import Answer, Lost, Request, Sleep, Steps
from botwired.errors import Conflict, Refused, Unauthorized, Unavailable

_FIRST_PAUSE = 0.05
"""Seconds before the second attempt. Each further pause is twice as long, up to _LONGEST_PAUSE."""
_LONGEST_PAUSE = 1.0

_FIRST_CONFLICT_PAUSE = 0.002
"""Seconds before a change is tried again that somebody else was faster with: about what a write takes."""

_LULL = 10.0
"""Seconds after which a conflict is a new change's: the pauses between the attempts of one are far shorter."""

_NOTHING_DONE = frozenset({429, 503})
"""The server asks to try again later, and has not carried out any of the request."""
_MAYBE_DONE = frozenset({502, 504})
"""A server on the way does not know what has become of the request."""

_FIRST_CONTACT_PATIENCE = 0.5
"""Seconds for a server that this process has never had an answer of, while no connection is made: as long as a daemon
takes to start."""

_UPSTREAM_PATIENCE = 5.0
"""Seconds for a read that only upstream could answer, and upstream is away: the daemon itself has tried that long."""
_UNKNOWN = "not known here"
"""How the daemon's detail begins in that case."""


@dataclass(frozen=True)
class Outcome:
    """The answer, and whether an earlier attempt without an answer may have been carried out."""

    answer: Answer
    is_repeated: bool


@dataclass(frozen=True)
class Failure:
    """A call that has spent its whole patience, or found no server: when it began, and when it gave up."""

    since: float
    at: float
    error: Unavailable


@dataclass
class Contact:
    """What the memories of a server know of it."""

    is_made: bool = False
    """The server has answered this process."""
    failure: Failure | None = None
    """The latest call that has failed so, if no answer has ended one since."""
    outage_since: float | None = None
    """When the first read began that upstream could not answer. None: a later one has had an answer of upstream's."""


_CONTACTS: dict[str, Contact] = {}
"""By server. All memories of the process share it: programs with a memory for each session wait once, too."""


def contact_with(server: str) -> Contact:
    """Return what is known of a server."""
    return _CONTACTS.setdefault(server, Contact())


def now() -> float:
    """Return seconds that only grow."""
    return time.monotonic()


def exchange(
    request: Request, patience: float, server: str, contact: Contact, called: float | None = None
) -> Steps[Outcome]:
    """Send a request until it is answered, for up to `patience` seconds and its wait. Every request may be repeated.

    Reads that only upstream could answer wait out the beginning of an outage. Later ones fail at once.
    The latest attempt decides how long the call lasts. A daemon that has answered and restarts has the whole patience.
    A call that has waited for its turn since `called` has waited for the server, too, if the call before it has just
    failed so. Many such calls do not fail one after another.
    It ends with an answer of 2xx, 404 or 412, or raises the error for any other.
    """
    began, failure = now(), contact.failure
    if called is not None and failure is not None and failure.at > called and began - failure.at < _LONGEST_PAUSE:
        spent = began - max(called, failure.since)
        if spent >= patience:
            raise Unavailable(*failure.error.args) from failure.error.__cause__
        began -= spent
    pause = _FIRST_PAUSE
    is_repeated = False
    kept = ""
    while True:
        attempt: Answer | Lost = yield request
        if isinstance(attempt, Answer):
            contact.is_made = True
            kept = _pending_in(attempt) or kept
        if isinstance(attempt, Answer) and not _is_passing(request, attempt):
            contact.failure = None
            if "fwd=" in attempt.headers.get("cache-status", ""):
                contact.outage_since = None
            _raise_for(attempt, kept)
            return Outcome(attempt, is_repeated)
        is_repeated = is_repeated or _may_be_done(attempt)
        limit = patience + request.wait
        is_away = isinstance(attempt, Answer) and attempt.status == 503 and attempt.detail.startswith(_UNKNOWN)
        if is_away:
            contact.outage_since = began if contact.outage_since is None else contact.outage_since
            limit = min(limit, max(0, contact.outage_since + _UPSTREAM_PATIENCE - began))
        is_absent = isinstance(attempt, Lost) and not contact.is_made and not is_repeated
        if is_absent:
            limit = min(limit, _FIRST_CONTACT_PATIENCE)
        left = began + limit - now()
        wanted = _retry_after(attempt)
        is_told = isinstance(attempt, Answer) and (attempt.status == 429 or _pending_in(attempt) != "")
        if left <= 0 or (is_told and wanted > left):
            error = _unavailable(attempt, is_absent, limit - max(left, 0), server, kept)
            if left <= 0 and (is_absent or limit >= patience) and not kept:
                contact.failure = Failure(began, now(), error)
            raise error from (attempt.error if isinstance(attempt, Lost) else None)
        yield Sleep(min(left, max(wanted, pause * random.uniform(0.5, 1))))
        pause = min(pause * 2, _LONGEST_PAUSE)


class Contention:
    """Spaces out the attempts of a change that others are faster with, and ends them."""

    def __init__(self, key: str, patience: float) -> None:
        self._key = key
        self._patience = patience
        self._began = self._latest = time.monotonic()
        self._attempts = 0

    def is_over(self) -> bool:
        """Report whether nobody tries again any more: the latest attempt was long ago."""
        return time.monotonic() - self._latest >= _LULL

    def pause_after(self, conflict: Conflict) -> float:
        """Return the seconds until the next attempt, or raise the error that ends the attempts."""
        self._attempts += 1
        self._latest = time.monotonic()
        if self._latest - self._began >= self._patience:
            raise Unavailable(
                f"{self._key!r} was not changed: in {self._attempts} attempts over {self._patience:g} s, others have "
                "written it each time. If nobody else does, a gateway on the way changes the conditions of requests"
            ) from conflict
        longest = min(_FIRST_CONFLICT_PAUSE * 2**self._attempts, _LONGEST_PAUSE)
        return random.uniform(0, longest)


def _is_passing(request: Request, answer: Answer) -> bool:
    if answer.status not in _MAYBE_DONE:
        return answer.status in _NOTHING_DONE
    return request.method == "GET" or (_pending_in(answer) != "" and "idempotency-key" in request.headers)


def _pending_in(answer: Answer) -> str:
    """Return what a daemon's 504 says of a write that upstream has not confirmed. "" of any other answer."""
    pending = re.match(r"pending;.*\bseq=([0-9]+)", answer.headers.get("botwired-write", ""))
    if answer.status != 504 or pending is None:
        return ""
    return f": the write is durable in the daemon, and pending. Its receipt is /_botwired/receipts/{pending[1]}"


def _may_be_done(attempt: Answer | Lost) -> bool:
    return attempt.was_sent if isinstance(attempt, Lost) else attempt.status in _MAYBE_DONE


def _retry_after(attempt: Answer | Lost) -> float:
    """Seconds that the server asks for. A date, which no BotWire sends, counts as none."""
    text = "" if isinstance(attempt, Lost) else attempt.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else 0.0


def _raise_for(answer: Answer, kept: str) -> None:
    status = answer.status
    if 200 <= status < 300 or status in (404, 412):
        return
    if status == 401:
        raise Unauthorized(
            f"{answer.detail} (HTTP 401): pass token=, or put it into the URL, as in http://x:TOKEN@host:2689"
        )
    if status in _MAYBE_DONE:
        outcome = kept or ": the write may have been made, so read the entry"
        raise Unavailable(f"{answer.detail} (HTTP {status}){outcome}")
    raise Refused(status, answer.detail)


def _unavailable(attempt: Answer | Lost, is_absent: bool, limit: float, server: str, kept: str) -> Unavailable:
    if isinstance(attempt, Lost) and is_absent:
        return Unavailable(
            f"there is no botwired at {server}: {attempt.reason}. Start one: `botwired run -- COMMAND` runs it beside "
            "a command, and `botwired serve` by itself"
        )
    if isinstance(attempt, Lost):
        return Unavailable(
            f"no answer from {server} for {limit:g} s: {attempt.reason}. Is botwired running there? "
            f"botwired status tells{kept}"
        )
    waited = f", and no other answer for {round(limit, 1):g} s" if round(limit, 1) else ""
    return Unavailable(f"{attempt.detail} (HTTP {attempt.status}{waited}){kept}")
