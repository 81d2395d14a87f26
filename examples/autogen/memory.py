"""AutoGen's Memory protocol over botwired."""

from typing import Any

from autogen_core import CancellationToken
from autogen_core.memory import Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import SystemMessage
from botwired import AsyncMemory


class BotwiredMemory(Memory):
    """A list of what an agent has kept, under one key.

    Any number of agents may share it: none overwrites what another has added.
    """

    def __init__(self, store: AsyncMemory, key: str) -> None:
        self._store = store
        self._key = key

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        item = content.model_dump(mode="json")
        await self._store.update(self._key, lambda items: [*items, item], default=[])

    async def query(
        self, query: str | MemoryContent = "", cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """All that was kept, in order. It does not search."""
        items = await self._store.get(self._key, [])
        return MemoryQueryResult(results=[MemoryContent.model_validate(item) for item in items])

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        memories = await self.query()
        if memories.results:
            lines = "\n".join(f"- {memory.content}" for memory in memories.results)
            await model_context.add_message(SystemMessage(content=f"Facts from earlier conversations:\n{lines}"))
        return UpdateContextResult(memories=memories)

    async def clear(self) -> None:
        await self._store.delete(self._key)

    async def close(self) -> None:
        """The store belongs to the caller."""
