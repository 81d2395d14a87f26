"""botwired.pydantic_ai: a store of conversations."""
from botwired import AsyncMemory
from botwired.pydantic_ai import MemoryConversationStore
from driver import CONVERSATION, main
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart


def conversation():
    store = MemoryConversationStore(AsyncMemory(CONVERSATION))

    async def say(number, text):
        talk = await store.load(CONVERSATION) or Conversation(conversation_id=CONVERSATION)
        assert len(talk.messages) == number
        response = ModelResponse(parts=[TextPart(content=text)])
        talk.messages.append(response if number % 2 else ModelRequest(parts=[UserPromptPart(content=text)]))
        await store.save(talk)

    async def count():
        talk = await store.load(CONVERSATION)
        return len(talk.messages) if talk else 0

    return say, count


main("Pydantic AI: `botwired.pydantic_ai`", ["pydantic-ai-slim"], conversation)
