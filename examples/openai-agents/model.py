"""A stand-in for a model. It answers questions with all that it was told to remember in the conversation."""

from collections.abc import AsyncIterator
from typing import Any

from agents import Model as BaseModel
from agents import ModelResponse, TResponseInputItem, Usage, set_tracing_disabled
from agents.items import TResponseStreamEvent
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)  # it would go to OpenAI


class Model(BaseModel):
    async def get_response(
        self, system_instructions: str | None, input: str | list[TResponseInputItem], *_: Any, **__: Any
    ) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        said = [str(item["content"]) for item in items if item.get("role") == "user"]
        facts = [text.removeprefix("Remember: ") for text in said if text.startswith("Remember: ")]
        answer = "I will remember that." if said[-1].startswith("Remember: ") else f"I remember: {'; '.join(facts)}"
        text = ResponseOutputText(type="output_text", text=answer, annotations=[])
        message = ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError("the stand-in answers in one piece: use Runner.run")
