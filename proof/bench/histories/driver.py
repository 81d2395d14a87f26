"""The common part of the scripts of this folder. Each holds a conversation with one adapter:

    NAME.py MESSAGES THINK

adds so many messages to the conversation in the memory at BOTWIRE_URL, with THINK seconds between two of them, reads the
conversation, and prints a line of JSON: how long the messages took, and how many there are in the end. With 0 messages,
it reads what another process has kept.

A script calls `main` with the adapter's name for people, the packages whose versions matter, and a function. That
function opens the conversation and returns two others: `say(number, text)` reads the history, as an agent does for its
model, and adds a message, and `count()` says how many there are. Both may be coroutine functions.
"""
import asyncio
import inspect
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

CONVERSATION = "conversation"  # the namespace, and the name of the conversation in it
TEXT = "The train to Lisbon leaves at seven in the evening, and I would like a seat at the window, please: number {}."

Say = Callable[[int, str], Awaitable[None] | None]
Count = Callable[[], Awaitable[int] | int]


async def done(result: Any) -> Any:
    """Return the result of a function, or of its coroutine."""
    return await result if inspect.isawaitable(result) else result


async def hold(adapter: str, packages: list[str], conversation: Callable[[], Any]) -> dict[str, Any]:
    messages, think = int(sys.argv[1]), float(sys.argv[2])
    say: Say
    count: Count
    say, count = await done(conversation())
    took = []
    for number in range(messages):
        if number:
            await asyncio.sleep(think)
        began = time.monotonic()
        await done(say(number, TEXT.format(number)))
        took.append(time.monotonic() - began)
    return {
        "adapter": adapter,
        "versions": ", ".join(f"{package} {version(package)}" for package in packages),
        "wall": sum(took),
        "slowest": max(took, default=0.0),
        "messages": await done(count()),
    }


def main(adapter: str, packages: list[str], conversation: Callable[[], Any]) -> None:
    print(json.dumps(asyncio.run(hold(adapter, packages, conversation))))
