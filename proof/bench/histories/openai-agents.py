"""botwired.openai_agents: a session."""
from botwired import AsyncMemory
from botwired.openai_agents import MemorySession
from driver import CONVERSATION, main


def conversation():
    session = MemorySession(CONVERSATION, AsyncMemory(CONVERSATION))

    async def say(number, text):
        assert len(await session.get_items()) == number
        await session.add_items([{"role": "assistant" if number % 2 else "user", "content": text}])

    async def count():
        return len(await session.get_items())

    return say, count


main("OpenAI Agents: `botwired.openai_agents`", ["openai-agents"], conversation)
