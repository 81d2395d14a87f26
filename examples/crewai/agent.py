"""A CrewAI agent that remembers: its memory tools are over botwired.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: put the name of one of yours here, such as llm="openai/gpt-5".
"""

import sys

from botwired import Memory
from botwired.crewai import memory_tools
from crewai import Agent
from crewai.events.utils.console_formatter import set_suppress_console_output

from model import Model

set_suppress_console_output(True)  # no panels: the answers alone


def main(messages: list[str]) -> None:
    with Memory("crew-agent") as memory:
        agent = Agent(
            role="Assistant",
            goal="Keep facts, and find them again.",
            backstory="You forget everything that is not in your memory.",
            tools=memory_tools(memory),
            llm=Model(model="stand-in"),
        )
        for message in messages:
            print(agent.kickoff(message).raw)


main(sys.argv[1:])
