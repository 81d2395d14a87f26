"""Claude's memory tool over botwired: the files of /memories are entries.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

With ANTHROPIC_API_KEY set, Claude answers. Without, model.py stands for it: a server on loopback.
"""

import os
import sys

from anthropic import Anthropic
from botwired import Memory
from botwired.claude import MemoryTool

from model import serving


def main(client: Anthropic, messages: list[str]) -> None:
    with Memory("claude-agent") as memory:
        for message in messages:  # each is a conversation of its own
            runner = client.beta.messages.tool_runner(
                model="claude-sonnet-5",
                max_tokens=1024,
                messages=[{"role": "user", "content": message}],
                tools=[MemoryTool(memory)],
                betas=["context-management-2025-06-27"],
            )
            answer = runner.until_done()
            print("".join(block.text for block in answer.content if block.type == "text"))


if os.environ.get("ANTHROPIC_API_KEY"):
    main(Anthropic(), sys.argv[1:])
else:
    with serving() as url:
        main(Anthropic(base_url=url, api_key="none"), sys.argv[1:])
