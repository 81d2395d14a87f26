"""A stand-in for a model. It answers questions with all that it was told to remember in the conversation."""

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms import CustomLLM


class Model(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True)

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        said = [m.content or "" for m in messages if m.role == MessageRole.USER]
        facts = [text.removeprefix("Remember: ") for text in said if text.startswith("Remember: ")]
        answer = "I will remember that." if said[-1].startswith("Remember: ") else f"I remember: {'; '.join(facts)}"
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=answer))

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        raise NotImplementedError("the stand-in chats only")

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponseGen:
        raise NotImplementedError("the stand-in chats only")
