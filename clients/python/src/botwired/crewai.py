"""A memory as tools of CrewAI's agents: ``pip install 'botwired[crewai]'``.

    from botwired import Memory
    from botwired.crewai import memory_tools
    from crewai import Agent

    agent = Agent(role="Researcher", goal="…", backstory="…", tools=memory_tools(Memory("research-crew")))

The agent decides what it remembers, and under which key. All agents and crews of one namespace share it, and any
other client of BotWire reads and writes the same entries. CrewAI caches the results of tools; these are not cached, as
another agent may have written since.
"""

from __future__ import annotations

import asyncio
from typing import Any

from botwired import Memory
from botwired._port import Blocking, complete, with_state
from botwired._values import encode

try:
    from crewai.tools import BaseTool
    from pydantic import BaseModel, Field
except ImportError as e:
    raise ImportError("botwired.crewai needs crewai: pip install 'botwired[crewai]'") from e

__all__ = [
    "ForgetTool",
    "ListMemoriesTool",
    "RecallTool",
    "RememberTool",
    "SearchMemoriesTool",
    "memory_tools",
]

# MOST_KEYS and MOST_HITS bound what a tool puts into a model's context, and EXCERPT the characters of each hit.
MOST_KEYS = 200
MOST_HITS = 10
EXCERPT = 300


def memory_tools(memory: Memory, *, read_only: bool = False) -> list[BaseTool]:
    """Return the tools for a memory. With `read_only`, those that change nothing."""
    reading: list[BaseTool] = [RecallTool(memory=memory), ListMemoriesTool(memory=memory)]
    reading.append(SearchMemoriesTool(memory=memory))
    return reading if read_only else [RememberTool(memory=memory), ForgetTool(memory=memory), *reading]


def never(arguments: Any = None, result: Any = None) -> bool:
    """Tell CrewAI not to cache a result: the memory may change at any time."""
    return False


class _MemoryTool(BaseTool):
    """The base of the tools. Agents may share a tool."""

    memory: Any = Field(exclude=True, repr=False)
    cache_function: Any = never

    def _run(self, *args: Any, **kwargs: Any) -> str:
        return with_state(self.memory, self._answer(*args, **kwargs))

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(self._run, *args, **kwargs)

    def _answer(self, *args: Any, **kwargs: Any) -> str:
        raise NotImplementedError


class _Remember(BaseModel):
    key: str = Field(description="A short name for the fact, such as user_name. An older value under it is replaced.")
    value: str = Field(description="The fact, as text.")


class RememberTool(_MemoryTool):
    """Writes a value."""

    name: str = "Remember"
    description: str = "Store a fact under a key in the memory, which lasts beyond this conversation."
    args_schema: type[BaseModel] = _Remember

    def _answer(self, key: str, value: str) -> str:
        self.memory.set(key, value)
        return f"Remembered under {key!r}."


class _Key(BaseModel):
    key: str = Field(description="The key that the fact was remembered under.")


class RecallTool(_MemoryTool):
    """Reads a value."""

    name: str = "Recall"
    description: str = "Read the fact under a key from the memory."
    args_schema: type[BaseModel] = _Key

    def _answer(self, key: str) -> str:
        entry = self.memory.entry(key)
        if entry is not None:
            return _text(entry.value)
        return f"There is nothing under {key!r}. {_keys(self.memory.list_keys())}"


class ForgetTool(_MemoryTool):
    """Deletes an entry."""

    name: str = "Forget"
    description: str = "Delete the fact under a key from the memory, for good."
    args_schema: type[BaseModel] = _Key

    def _answer(self, key: str) -> str:
        if self.memory.delete(key):
            return f"Forgot {key!r}."
        return f"There is nothing under {key!r}. {_keys(self.memory.list_keys())}"


class _Prefix(BaseModel):
    prefix: str = Field(default="", description="Only keys that begin with this. Empty for all keys.")


class ListMemoriesTool(_MemoryTool):
    """Lists keys."""

    name: str = "List memories"
    description: str = "List the keys in the memory, the latest written first."
    args_schema: type[BaseModel] = _Prefix

    def _answer(self, prefix: str = "") -> str:
        return _keys(self.memory.list_keys(prefix))


class _Text(BaseModel):
    text: str = Field(description="What to look for in keys and facts. Upper and lower case are the same.")


class SearchMemoriesTool(_MemoryTool):
    """Looks for a text in keys and values. It reads every value of the namespace."""

    name: str = "Search memories"
    description: str = "Find facts in the memory that contain a text."
    args_schema: type[BaseModel] = _Text

    def _answer(self, text: str) -> str:
        entries = complete(Blocking(self.memory).entries(self.memory.list_keys()))
        found = [(entry.key, _text(entry.value)) for entry in entries if entry is not None]
        hits = [(key, value) for key, value in found if text.lower() in f"{key}\n{value}".lower()]
        if not hits:
            return f"Nothing in the memory contains {text!r}."
        lines = [f"{key}: {_excerpt(value, text)}" for key, value in hits[:MOST_HITS]]
        if len(hits) > MOST_HITS:
            lines.append(f"({len(hits) - MOST_HITS} more: look for a longer text)")
        return "\n".join(lines)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode(value)


def _keys(keys: list[str]) -> str:
    if not keys:
        return "There are no keys."
    more = f" and {len(keys) - MOST_KEYS} more (ask for a prefix)" if len(keys) > MOST_KEYS else ""
    return f"The keys are: {', '.join(map(repr, keys[:MOST_KEYS]))}{more}."


def _excerpt(value: str, text: str) -> str:
    """Return a part of a value around a text."""
    if len(value) <= EXCERPT:
        return value
    start = min(max(0, value.lower().find(text.lower()) - EXCERPT // 2), len(value) - EXCERPT)
    return ("…" if start else "") + value[start : start + EXCERPT] + ("…" if start + EXCERPT < len(value) else "")
