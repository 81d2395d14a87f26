"""One daemon for most tests, each of which has a namespace of its own, and a Memory of both kinds."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from servers import daemon

from botwired import AsyncMemory, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import Server

_numbers = itertools.count()

# A busy machine is no failure, and no file is left behind.
settings.register_profile(
    "here",
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("here")


@pytest.fixture(autouse=True)
def _no_server_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botwired._retry._CONTACTS", {})


class Blocking:
    """An AsyncMemory whose methods are called as a Memory's are."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._memory = AsyncMemory(*arguments, **named)
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._memory, name)
        return self._blocking(attribute) if callable(attribute) else attribute

    def __contains__(self, key: str) -> bool:
        return self._loop.run_until_complete(self._memory.exists(key))

    def close(self) -> None:
        """Close the memory and its event loop."""
        self._loop.run_until_complete(self._memory.close())
        self._loop.close()

    def _blocking(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            if inspect.isasyncgen(result):

                async def collect() -> list[Any]:
                    return [item async for item in result]

                return self._loop.run_until_complete(collect())
            return self._loop.run_until_complete(result)

        return call


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A botwired on its embedded upstream, for all tests that do not end it."""
    running = daemon(tmp_path_factory.mktemp("daemon")).start()
    yield running
    running.stop()


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"test-{next(_numbers)}"


@pytest.fixture(params=[Memory, Blocking], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Any:
    """Memory, and AsyncMemory with blocking methods."""
    return request.param


@pytest.fixture
def memory(kind: Any, server: Server, namespace: str) -> Iterator[Any]:
    """A memory of each kind on the daemon."""
    memory = kind(namespace, base_url=server.url)
    yield memory
    memory.close()
