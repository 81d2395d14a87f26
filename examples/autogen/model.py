"""A stand-in for a model. It keeps what begins with "Remember: ", and answers everything else with what it was told."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    SystemMessage,
    UserMessage,
)

NOTHING = RequestUsage(prompt_tokens=0, completion_tokens=0)


class Model(ChatCompletionClient):
    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        said = next(m.content for m in reversed(messages) if isinstance(m, UserMessage))
        if isinstance(said, str) and said.startswith("Remember: "):
            arguments = json.dumps({"fact": said.removeprefix("Remember: ")})
            call = FunctionCall(id="1", name="remember", arguments=arguments)
            return CreateResult(finish_reason="function_calls", content=[call], usage=NOTHING, cached=False)
        lines = [line for m in messages if isinstance(m, SystemMessage) for line in m.content.splitlines()]
        facts = "; ".join(line.removeprefix("- ") for line in lines if line.startswith("- "))
        return CreateResult(finish_reason="stop", content=f"I remember: {facts}", usage=NOTHING, cached=False)

    async def create_stream(
        self, messages: Sequence[LLMMessage], **more: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        yield await self.create(messages, **more)

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return NOTHING

    def total_usage(self) -> RequestUsage:
        return NOTHING

    def count_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        return 0

    def remaining_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        return 1

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
        )

    @property
    def capabilities(self) -> ModelInfo:
        return self.model_info
