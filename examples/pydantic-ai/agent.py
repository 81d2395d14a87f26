"""A Pydantic AI agent that remembers: its conversations are in botwired.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: put the name of one of yours here, such as "openai:gpt-5".
"""

import asyncio
import sys

from botwired import AsyncMemory
from botwired.pydantic_ai import MemoryConversationStore
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation

from model import model


async def main(messages: list[str]) -> None:
    async with AsyncMemory("pydantic-agent") as memory:
        store = MemoryConversationStore(memory)
        agent = Agent(model)
        for message in messages:
            conversation = await store.load("user-42") or Conversation(conversation_id="user-42")
            result = await agent.run(message, conversation=conversation)
            await store.save(result)
            print(result.output)


asyncio.run(main(sys.argv[1:]))
