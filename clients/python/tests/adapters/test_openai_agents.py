from __future__ import annotations

import asyncio
import random
from typing import Any

from agents import Agent, Runner, SessionSettings, SQLiteSession
from agents.memory import OpenAIResponsesCompactionSession, Session
from agents.testing import ScriptedModel
from conftest import Server
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from botwired import AsyncMemory
from botwired.openai_agents import MemorySession


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def reply(text: str) -> ResponseOutputMessage:
    content = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(id="1", type="message", role="assistant", content=content, status="completed")


async def test_a_session_does_what_the_sdks_own_does(async_memory: AsyncMemory) -> None:
    dice = random.Random(11)
    settings = {"limit": 7}
    pair: list[Session] = [
        SQLiteSession("user:42/ß", session_settings=settings),
        MemorySession("user:42/ß", async_memory, session_settings=settings),
    ]
    assert isinstance(pair[1], Session)
    for number in range(80):
        match dice.choice(["add", "add", "add", "pop", "clear", "again"]):
            case "add":
                items = [user(f"{number}.{i} " + "é" * dice.randrange(3_000)) for i in range(dice.randrange(4))]
                for session in pair:
                    await session.add_items(list(items))
            case "pop":
                assert await pair[0].pop_item() == await pair[1].pop_item()
            case "clear" if dice.random() < 0.2:
                for session in pair:
                    await session.clear_session()
            case "again":
                pair[1] = MemorySession("user:42/ß", async_memory, session_settings=SessionSettings(**settings))
        for limit in (None, 0, 1, 3, 1_000):
            assert await pair[0].get_items(limit) == await pair[1].get_items(limit)


async def test_another_process_goes_on_with_a_run(async_memory: AsyncMemory) -> None:
    for number in range(3):
        model = ScriptedModel(steps=[[reply(f"answer {number}")]])
        session = MemorySession("talk", async_memory)  # as a new process has it
        result = await Runner.run(Agent(name="a", model=model), f"question {number}", session=session)
        assert result.final_output == f"answer {number}"
    items = await session.get_items()
    assert [item["role"] for item in items] == ["user", "assistant"] * 3
    assert items[0]["content"] == "question 0"


async def test_a_long_item_and_a_long_history(async_memory: AsyncMemory) -> None:
    items = [user(f"{number} " + "x" * (150_000 if number == 7 else 900)) for number in range(200)]
    session = MemorySession("long", async_memory)
    for item in items:
        await session.add_items([item])
    assert await MemorySession("long", async_memory).get_items() == items
    for key in await async_memory.list_keys():
        entry = await async_memory.entry(key)
        assert entry is not None
        assert len(entry.text) <= 100_000


async def test_compaction_replaces_the_items_in_one_step(async_memory: AsyncMemory) -> None:
    class Responses:
        async def compact(self, **asked: Any) -> Any:
            output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "short"}]}]
            return type("Compacted", (), {"output": output, "usage": None})()

    class Client:
        responses = Responses()

    session = MemorySession("compact", async_memory)
    await session.add_items([user("a"), user("b")])
    cleared = []
    session.clear_session = lambda: cleared.append(True)  # what it would do without the one step
    compacting = OpenAIResponsesCompactionSession("compact", session, client=Client(), compaction_mode="input")
    await compacting.run_compaction({"force": True})
    assert [item["content"][0]["text"] for item in await session.get_items()] == ["short"]
    assert not cleared


async def test_sessions_of_several_processes_lose_nothing(daemon: Server, namespace: str) -> None:
    async with AsyncMemory(namespace, daemon.url) as memory:
        sessions = [MemorySession("shared", memory) for _ in range(4)]
        await asyncio.gather(*(s.add_items([user(f"{n}.{i}")]) for n, s in enumerate(sessions) for i in range(10)))
        found = {item["content"] for item in await sessions[0].get_items()}
        assert found == {f"{n}.{i}" for n in range(4) for i in range(10)}
