"""The memory of AI agents, through botwired: local, durable, and BotWire's upstream.

    from botwired import Memory

    memory = Memory("my-agent")
    memory.set("user_name", "Ada")
    memory.get("user_name")

`botwired serve` runs the daemon, and `botwired run -- python agent.py` runs it beside an agent.
"""

from botwired._asyncmemory import AsyncMemory
from botwired._binary import find_binary
from botwired._entries import ABSENT, ANY, Entry, Revision, Written
from botwired._http import __version__
from botwired._memory import Memory
from botwired._rules import Incomplete
from botwired.errors import Conflict, Error, Refused, Unauthorized, Unavailable, Unsupported

__all__ = [
    "ABSENT",
    "ANY",
    "AsyncMemory",
    "Conflict",
    "Entry",
    "Error",
    "Incomplete",
    "Memory",
    "Refused",
    "Revision",
    "Unauthorized",
    "Unavailable",
    "Unsupported",
    "Written",
    "__version__",
    "find_binary",
]
