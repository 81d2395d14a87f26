"""An AutoGen agent that remembers: AutoGen's Memory protocol over botwired.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: put one of yours here, such as OpenAIChatCompletionClient(model="gpt-5").
"""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import MemoryContent, MemoryMimeType
from botwired import AsyncMemory

from memory import BotwiredMemory
from model import Model


async def main(messages: list[str]) -> None:
    async with AsyncMemory("autogen-agent") as store:
        memory = BotwiredMemory(store, "facts")

        async def remember(fact: str) -> str:
            """Keep a fact for later conversations."""
            await memory.add(MemoryContent(content=fact, mime_type=MemoryMimeType.TEXT))
            return "I will remember that."

        for message in messages:  # each is a conversation of its own
            agent = AssistantAgent("assistant", Model(), tools=[remember], memory=[memory])
            result = await agent.run(task=message)
            print(result.messages[-1].content)


asyncio.run(main(sys.argv[1:]))
