"""A stand-in for a model. It answers questions with all that it was told to remember in the conversation."""

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    said = [str(part.content) for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    facts = [text.removeprefix("Remember: ") for text in said if text.startswith("Remember: ")]
    text = "I will remember that." if said[-1].startswith("Remember: ") else f"I remember: {'; '.join(facts)}"
    return ModelResponse(parts=[TextPart(text)])


model = FunctionModel(answer)
