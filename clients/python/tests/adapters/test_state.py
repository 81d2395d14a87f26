"""While upstream is away, a turn of each framework succeeds, and its memory says so in the same words as any other."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents import Agent, Runner
from agents.testing import ScriptedModel, assistant_message
from conftest import Server
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.graph import END, START, MessagesState, StateGraph

from botwired import AsyncMemory, Memory
from botwired.claude import AsyncMemoryTool, MemoryTool
from botwired.langchain import ChatMessageHistory
from botwired.langgraph import CheckpointSaver, Store
from botwired.openai_agents import MemorySession

AWAY = re.compile(
    r"Upstream has failed to answer since \d\d:\d\d UTC: "
    r"answers may be botwired's copies, and writes are kept here, durably, until it has them\."
)
LIMIT = 60  # seconds; it only ends a hang
OUTAGE = float(os.environ.get("OUTAGE", "0"))  # seconds: how long upstream is away, at least


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Server]:
    directory = tmp_path / "upstream"
    directory.mkdir()
    server = Server(directory, "selfhost", "--db", str(directory / "memory.db"))
    yield server
    server.kill(signal.SIGTERM)


@pytest.fixture
def behind(tmp_path: Path, upstream: Server) -> Iterator[Server]:
    server = Server(tmp_path, "serve", "--upstream", upstream.url, "--data-dir", str(tmp_path / "data"))
    yield server
    server.kill()


def call(url: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call an MCP tool, which must succeed."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {"namespace": "agent", **arguments}},
    }
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    answer = httpx.post(f"{url}/_botwired/mcp", json=message, headers=headers, timeout=LIMIT).json()["result"]
    assert not answer.get("isError"), answer
    result: dict[str, Any] = answer["structuredContent"]
    return result


async def turns(server: Server) -> dict[str, str | None]:
    """Take a turn with each, and return what each says of its memory."""
    states: dict[str, str | None] = {}
    with Memory("agent", server.url) as memory:
        memory.set("k", "v")
        states["set"] = memory.state
        assert memory.get("k") == "v"
        states["get"] = memory.state
        memory.update("n", lambda n: (n or 0) + 1)
        states["update"] = memory.state
        assert "k" in memory.list_keys()
        states["list"] = memory.state

        with warnings.catch_warnings(action="ignore"):  # it is deprecated, and used
            chain = RunnableWithMessageHistory(
                GenericFakeChatModel(messages=iter([AIMessage("hello")])), lambda s: ChatMessageHistory(s, memory)
            )
        assert chain.invoke("hi", {"configurable": {"session_id": "chat"}}).content == "hello"
        states["a LangChain turn"] = memory.state

        graph = StateGraph(MessagesState)
        graph.add_node("answer", lambda _: {"messages": [AIMessage("hello")]})
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        compiled = graph.compile(checkpointer=CheckpointSaver(memory), store=Store(memory))
        compiled.invoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": "t"}})
        states["a LangGraph turn"] = memory.state

        path = f"/memories/{uuid.uuid4().hex}.md"
        answered = MemoryTool(memory).call({"command": "create", "path": path, "file_text": "x"})
        states["Claude's memory tool"] = said_before(str(answered), "File created")
    async with AsyncMemory("agent", server.url) as memory_:
        session = MemorySession("s", memory_)
        model = ScriptedModel(steps=[[assistant_message("hello")]])
        assert (await Runner.run(Agent(name="a", model=model), "hi", session=session)).final_output == "hello"
        states["an OpenAI Agents turn"] = memory_.state
        viewed = await AsyncMemoryTool(memory_).call({"command": "view", "path": "/memories"})
        states["Claude's memory tool, async"] = said_before(str(viewed), "Here")
    for tool, arguments in {
        "memory_write": {"key": "m", "value": "v"},
        "memory_read": {"key": "m"},
        "memory_list": {},
    }.items():
        states[tool] = call(server.url, tool, **arguments).get("memory_state")
    return states


def said_before(text: str, result: str) -> str | None:
    """What a tool's answer says before its result."""
    before, _, _ = text.partition(result)
    assert result in text
    return before.rstrip("\n") or None


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.timeout(2 * LIMIT + OUTAGE)
async def test_everybody_reports_an_outage_in_the_same_words(upstream: Server, behind: Server) -> None:
    before = await turns(behind)
    assert set(before.values()) == {None}, before
    upstream.kill()
    with Memory("agent", behind.url) as memory:

        def noticed() -> bool:
            memory.set("poke", "v")
            return memory.state is not None

        until(noticed)
        returns = time.monotonic() + OUTAGE
        words: set[str | None] = set()
        while not words or time.monotonic() < returns:
            during = await turns(behind)
            words |= set(during.values())
            assert len(words) == 1, during
            await asyncio.sleep(OUTAGE / 60)
        assert AWAY.fullmatch(words.pop() or "")
        upstream.start()

        def over() -> bool:
            return not noticed()

        until(over)
    after = await turns(behind)
    assert set(after.values()) == {None}, after
