"""Callers at work while the daemon is killed and started again. None notices, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from servers import daemon

from botwired import ABSENT, AsyncMemory, Conflict, Memory, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from servers import Server

KILLS = int(os.environ.get("KILLS", "3"))
CALLS_PER_KILL = 50


class Progress:
    """Counts the calls of all workers. Each end of the daemon comes amid calls, after a number of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls = 0
        self.is_over = False

    def step(self) -> None:
        """Count one call."""
        with self._changed:
            self._calls += 1
            self._changed.notify_all()

    def await_more(self) -> None:
        """Wait until the workers have made some more calls."""
        with self._changed:
            goal = self._calls + CALLS_PER_KILL
            assert self._changed.wait_for(lambda: self._calls >= goal, 60), "the workers are stuck"


def end_it_often(server: Server, progress: Progress, end: Callable[[], None]) -> None:
    """End the daemon amid the calls, and start it again."""
    try:
        for _ in range(KILLS):
            progress.await_more()
            end()
            server.start()
        progress.await_more()
    finally:
        progress.is_over = True


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Server]:
    server = daemon(tmp_path).start()
    yield server
    server.stop()


class Books:
    """The answers that the workers have had."""

    def __init__(self) -> None:
        self.increments = 0
        self.appended: list[str] = []
        self.winners: list[str] = []
        self.own: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, me: str, n: int, has_won: bool) -> None:
        """Note the acknowledged writes of one round."""
        with self._lock:
            self.increments += 1
            self.appended.append(f"{me}.{n}")
            self.own[me] = n
            if has_won:
                self.winners.append(f"{me}.{n}")

    def audit(self, memory: Memory) -> None:
        """Compare what the workers were told with what is there."""
        assert self.increments > KILLS
        assert memory.get("count") == self.increments
        assert sorted(memory.get("list")) == sorted(self.appended)
        assert memory.get("own") is None
        for me, n in self.own.items():
            assert memory.get(f"own:{me}") == n
        first_of = dict(memory.items("first:"))
        assert sorted(first_of.values()) == sorted(self.winners)


def add(item: str, items: list[str]) -> list[str]:
    return [*items, item]


def work(memory: Memory, me: str, progress: Progress, books: Books) -> None:
    n = 0
    while not progress.is_over:
        n += 1
        memory.update("count", lambda count: count + 1, default=0)
        memory.update("list", functools.partial(add, f"{me}.{n}"), default=[])
        memory.set(f"own:{me}", n)
        assert memory.get(f"own:{me}") == n
        try:
            memory.set(f"first:{n}", f"{me}.{n}", if_version=ABSENT)
            has_won = True
        except Conflict:
            has_won = False
        books.note(me, n, has_won)
        progress.step()


async def work_async(memory: AsyncMemory, me: str, progress: Progress, books: Books) -> None:
    n = 0
    while not progress.is_over:
        n += 1
        await memory.update("count", lambda count: count + 1, default=0)
        await memory.update("list", functools.partial(add, f"{me}.{n}"), default=[])
        await memory.set(f"own:{me}", n)
        assert await memory.get(f"own:{me}") == n
        try:
            await memory.set(f"first:{n}", f"{me}.{n}", if_version=ABSENT)
            has_won = True
        except Conflict:
            has_won = False
        books.note(me, n, has_won)
        progress.step()


def audited(server: Server, books: Books) -> None:
    with Memory("restart", base_url=server.url) as fresh:
        books.audit(fresh)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_eight_threads(restarted: Server, how: str) -> None:
    progress, books = Progress(), Books()
    with Memory("restart", base_url=restarted.url) as memory, ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(work, memory, f"t{i}", progress, books) for i in range(8)]
        end_it_often(restarted, progress, getattr(restarted, how))
        for worker in workers:
            worker.result(60)
    audited(restarted, books)


def test_fifty_tasks(restarted: Server) -> None:
    progress, books = Progress(), Books()

    async def all_tasks() -> None:
        async with AsyncMemory("restart", base_url=restarted.url) as memory:
            tasks = [work_async(memory, f"a{i}", progress, books) for i in range(50)]
            await asyncio.gather(asyncio.to_thread(end_it_often, restarted, progress, restarted.kill), *tasks)

    asyncio.run(all_tasks())
    audited(restarted, books)


def test_a_daemon_that_comes_back(tmp_path: Path) -> None:
    server = daemon(tmp_path).start()
    with Memory("restart", base_url=server.url) as memory, ThreadPoolExecutor(1) as pool:
        assert memory.get("k") is None
        server.stop()
        written: Any = pool.submit(memory.set, "k", 1)
        server.start()
        assert written.result(30).state == "pending"
        assert memory.get("k") == 1
    server.stop()


def test_no_daemon_at_all(tmp_path: Path, kind: Any) -> None:
    server = daemon(tmp_path).start()
    server.stop()
    memory = kind("n", base_url=server.url)
    began = time.monotonic()
    with pytest.raises(Unavailable, match=rf"there is no botwired at {server.url}: .*`botwired run -- COMMAND`"):
        memory.set("k", 1)
    assert time.monotonic() - began < 5
    memory.close()
