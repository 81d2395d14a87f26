"""Updates of one entry take turns within a process.

It makes no promise to other processes: versions do that. Without turns, 50 tasks that update one entry would conflict
with each other 1,225 times.

An update may be made within one of another entry. Two that are nested crosswise would wait for each other: the second
is refused. What an update waits for otherwise, such as a thread that it has started, is not seen here.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import ContextVar
from typing import TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from botwired._retry import now
from botwired.errors import Error

Place: TypeAlias = tuple[str, str, str]
"""URL, namespace and key of an entry."""

_had: ContextVar[tuple[_Turn, ...]] = ContextVar("had", default=())
"""The turns that the caller has."""


class _Lane:
    """A place's lock: of all threads, or of the tasks of one event loop."""

    def __init__(self, lock: threading.Lock | asyncio.Lock) -> None:
        self.lock = lock
        self.holder: _Turn | None = None


class _Turns:
    """The turns that somebody has or waits for."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards all below, and the lanes' holders
        self._threads: WeakValueDictionary[Place, _Lane] = WeakValueDictionary()
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Place, _Lane]] = (
            WeakKeyDictionary()
        )
        self._waiting: set[_Turn] = set()

    def lane_of_threads(self, place: Place) -> _Lane:
        with self._guard:
            lane = self._threads.get(place)
            if lane is None:
                lane = self._threads[place] = _Lane(threading.Lock())
            return lane

    def lane_of_tasks(self, place: Place) -> _Lane:
        with self._guard:
            lanes = self._loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
            lane = lanes.get(place)
            if lane is None:
                lane = lanes[place] = _Lane(asyncio.Lock())
            return lane

    def ask(self, turn: _Turn) -> None:
        """Note that a caller waits for a turn, or refuse one that would wait for itself."""
        with self._guard:
            turn.outer = tuple(each for each in _had.get() if each.turns is self and each.lane.holder is each)
            awaited = next((each for each in turn.outer if each.place == turn.place), None) or self._awaited_by(turn)
            if awaited is None:
                self._waiting.add(turn)
                return
        raise Error(
            f"the update of {'/'.join(turn.place[1:])!r} within one of {'/'.join(awaited.place[1:])!r} would wait for "
            "itself: make one after the other, or nest them in the same order everywhere"
        )

    def _awaited_by(self, turn: _Turn) -> _Turn | None:
        """Return the turn that the caller has, and whose end it would wait for."""
        seen: set[_Turn | None] = {None}
        holders = [turn.lane.holder]
        while holders:
            holder = holders.pop()
            if holder in turn.outer:
                return holder
            if holder not in seen:
                holders += [each.lane.holder for each in self._waiting if holder in each.outer]
            seen.add(holder)
        return None

    def begin(self, turn: _Turn) -> None:
        with self._guard:
            self._waiting.discard(turn)
            turn.lane.holder = turn
        _had.set((*turn.outer, turn))

    def end(self, turn: _Turn) -> None:
        """End a turn, or the wait for one."""
        with self._guard:
            self._waiting.discard(turn)
            if turn.lane.holder is turn:
                turn.lane.holder = None
        _had.set(turn.outer)


class _Turn:
    """The right to update an entry."""

    def __init__(self, turns: _Turns, lane: _Lane, place: Place) -> None:
        self.turns = turns
        self.lane = lane
        self.place = place
        self.outer: tuple[_Turn, ...] = ()
        self.asked: float | None = now()


class ThreadTurn(_Turn):
    """The right to update an entry, for a thread."""

    def __enter__(self) -> None:
        self.turns.ask(self)
        try:
            self.lane.lock.acquire()
        except BaseException:
            self.turns.end(self)
            raise
        self.turns.begin(self)

    def __exit__(self, *_: object) -> None:
        self.turns.end(self)
        self.lane.lock.release()


class TaskTurn(_Turn):
    """The right to update an entry, for a task."""

    async def __aenter__(self) -> None:
        self.turns.ask(self)
        try:
            await self.lane.lock.acquire()  # type: ignore[misc]
        except BaseException:
            self.turns.end(self)
            raise
        self.turns.begin(self)

    async def __aexit__(self, *_: object) -> None:
        self.turns.end(self)
        self.lane.lock.release()


_turns = _Turns()


def waited_since() -> float | None:
    """Return since when the caller has waited for its turn, to the first request in it. Later ones have not waited."""
    turns = _had.get()
    if not turns:
        return None
    asked, turns[-1].asked = turns[-1].asked, None
    return asked


def for_thread(place: Place) -> ThreadTurn:
    """Return the turn of this thread's updates of an entry."""
    return ThreadTurn(_turns, _turns.lane_of_threads(place), place)


def for_task(place: Place) -> TaskTurn:
    """Return the turn of this event loop's updates of an entry."""
    return TaskTurn(_turns, _turns.lane_of_tasks(place), place)


def _forget() -> None:
    """Begin anew in a forked child: the threads that held a turn are not in it."""
    global _turns  # noqa: PLW0603
    _turns = _Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
