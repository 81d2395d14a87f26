"""A stand-in for a chat model. It answers questions with all that it was told to remember in the conversation."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Model(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = [str(m.content) for m in messages if isinstance(m, HumanMessage)]
        facts = [text.removeprefix("Remember: ") for text in said if text.startswith("Remember: ")]
        answer = "I will remember that." if said[-1].startswith("Remember: ") else f"I remember: {'; '.join(facts)}"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer))])
