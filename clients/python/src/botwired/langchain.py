"""LangChain's chat history, kept in a memory: ``pip install 'botwired[langchain]'``.

    from botwired import Memory
    from botwired.langchain import ChatMessageHistory

    history = ChatMessageHistory("user-42", Memory("langchain-sessions"))
    answer = model.invoke([*history.messages, question])
    history.add_messages([question, answer])

A history is a log in segments: a message rewrites the newest segment and not the whole history, and no history is too
long. A history goes on with the messages that BotWire's own BotWireChatHistory has written under the same session id,
in the namespace ``langchain-sessions`` unless you have named another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from botwired import AsyncMemory, Memory
from botwired._log import LogRules
from botwired._port import Runner

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, messages_from_dict, messages_to_dict
    from typing_extensions import override
except ImportError as e:
    raise ImportError("botwired.langchain needs langchain-core: pip install 'botwired[langchain]'") from e

__all__ = ["ChatMessageHistory"]


class ChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, for any number of processes at once.

    `memory` may be a Memory, whose requests the asynchronous methods make in a thread, or an AsyncMemory, which has
    only the asynchronous methods. A memory may serve any number of sessions, whose ids are any texts.
    """

    def __init__(self, session_id: str, memory: Memory | AsyncMemory) -> None:
        super().__init__()
        self.session_id = session_id
        self._runner = Runner(memory)
        self._log = LogRules(self._runner.port, session_id)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base declares it as an attribute
        """All messages, the oldest first."""
        return messages_from_dict(self._runner.run(self._log.read()))

    @override
    async def aget_messages(self) -> list[BaseMessage]:
        return messages_from_dict(await self._runner.arun(self._log.read()))

    @override
    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._runner.run(self._log.append(messages_to_dict(messages)))

    @override
    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await self._runner.arun(self._log.append(messages_to_dict(messages)))

    @override
    def clear(self) -> None:
        self._runner.run(self._log.replace(()))

    @override
    async def aclear(self) -> None:
        await self._runner.arun(self._log.replace(()))
