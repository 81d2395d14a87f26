"""Sessions of the OpenAI Agents SDK, kept in a memory: ``pip install 'botwired[openai-agents]'``.

    from agents import Runner
    from botwired import AsyncMemory
    from botwired.openai_agents import MemorySession

    session = MemorySession("user-42", AsyncMemory("my-agent"))
    await Runner.run(agent, "Hello", session=session)

A session is a log: its items are in segments, so that a turn sends only the newest of them upstream, and no value
grows past what BotWire takes. Several processes may add items to one session at once. On a plain BotWire, which has
no conditional writes, one of two that add at the same moment may lose its items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botwired import AsyncMemory
from botwired._log import AsyncLog

try:
    from agents.memory import SessionABC, SessionSettings
except ImportError as e:
    raise ImportError("botwired.openai_agents needs openai-agents: pip install 'botwired[openai-agents]'") from e

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

__all__ = ["MemorySession"]


class MemorySession(SessionABC):
    """The items of one session, under `session_id` in the memory's namespace. The id may be any text."""

    def __init__(
        self,
        session_id: str,
        memory: AsyncMemory,
        *,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        """Make a session. Nothing is read yet.

        session_settings: `limit` is how many of the newest items a run gets, where it asks for no other number.
        """
        self.session_id = session_id
        self.session_settings = _settings(session_settings)
        self._log = AsyncLog(memory, session_id)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest `limit` items, the oldest first; without a limit here or in the settings, all."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await self._log.read(None if limit is None else max(0, limit))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end: all of them, or none."""
        await self._log.append(items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it, or None if there is none."""
        item: TResponseInputItem | None = await self._log.pop()
        return item

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._log.clear()

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Let OpenAIResponsesCompactionSession replace the items in one step, where it would else clear and add."""
        await self._log.replace(items)
        return True


def _settings(given: SessionSettings | Mapping[str, Any] | None) -> SessionSettings:
    return given if isinstance(given, SessionSettings) else SessionSettings(**(given or {}))
