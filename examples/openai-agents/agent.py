"""An agent of OpenAI's Agents SDK that remembers: its session is in botwired.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: leave out model=Model() to use OpenAI's.
"""

import asyncio
import sys

from agents import Agent, Runner
from botwired import AsyncMemory
from botwired.openai_agents import MemorySession

from model import Model


async def main(messages: list[str]) -> None:
    async with AsyncMemory("openai-agent") as memory:
        session = MemorySession("user-42", memory)
        agent = Agent(name="assistant", model=Model())
        for message in messages:
            result = await Runner.run(agent, message, session=session)
            print(result.final_output)


asyncio.run(main(sys.argv[1:]))
