"""An agent that has its memory by MCP: it starts botwired mcp, as Claude, Cursor and VS Code do.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

botwired has to be on the PATH. In place of a model, this program calls the tools itself, as a model would: an error of
a tool is text that says what to do.
"""

import asyncio
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(command="botwired", args=["mcp", "--namespace", "mcp-agent"], env=dict(os.environ))


async def recall(client: Client) -> list[str]:
    result = await client.call_tool("memory_read", {"key": "facts"})
    if result.is_error:
        raise RuntimeError(text(result))
    content = result.structured_content or {}
    return content["value"].split("\n") if content["exists"] else []


async def remember(client: Client, fact: str) -> None:
    """Add a line. What others write at the same time stays.

    If the daemon is killed before it answers, nobody knows whether the line is there. So the second try looks first.
    """
    append = {"key": "facts", "value": fact}
    result = await client.call_tool("memory_append", append)
    if result.is_error and fact not in await recall(client):
        result = await client.call_tool("memory_append", append)
        if result.is_error:
            raise RuntimeError(text(result))


def text(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


async def main(messages: list[str]) -> None:
    async with Client(SERVER) as client:
        for message in messages:
            if message.startswith("Remember: "):
                await remember(client, message.removeprefix("Remember: "))
                print("I will remember that.")
            else:
                print(f"I remember: {'; '.join(await recall(client))}")


asyncio.run(main(sys.argv[1:]))
