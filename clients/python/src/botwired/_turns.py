"""Updates of one entry take turns within a process.

It makes no promise to other processes: versions do that. Without turns, 50 tasks that update one entry would conflict
with each other 1,225 times.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

Place: TypeAlias = tuple[str, str, str]
"""URL, namespace and key of an entry."""


class Turn:
    """The right to update an entry, for threads. A thread that has it may take it again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class _Turns:
    """The turns that somebody has or waits for."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards the two below
        self._threads: WeakValueDictionary[Place, Turn] = WeakValueDictionary()
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Place, asyncio.Lock]] = (
            WeakKeyDictionary()
        )

    def of_threads(self, place: Place) -> Turn:
        with self._guard:
            turn = self._threads.get(place)
            if turn is None:
                turn = self._threads[place] = Turn()
            return turn

    def of_tasks(self, place: Place) -> asyncio.Lock:
        with self._guard:
            turns = self._loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
            turn = turns.get(place)
            if turn is None:
                turn = turns[place] = asyncio.Lock()
            return turn


_turns = _Turns()


def for_thread(place: Place) -> Turn:
    """Return the turn of this thread's updates of an entry."""
    return _turns.of_threads(place)


def for_task(place: Place) -> asyncio.Lock:
    """Return the turn of this event loop's updates of an entry."""
    return _turns.of_tasks(place)


def _forget() -> None:
    """Begin anew in a forked child: the threads that held a turn are not in it."""
    global _turns  # noqa: PLW0603
    _turns = _Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
