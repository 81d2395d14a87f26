from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import BaseTool
from pydantic import Field

from botwired import Memory, Refused
from botwired.crewai import memory_tools


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


def test_what_one_agent_remembers_another_recalls(memory: Memory) -> None:
    tools = by_name(memory_tools(memory))
    assert tools["Recall"].run(key="user:42 name") == "There is nothing under 'user:42 name'. There are no keys."
    assert tools["Remember"].run(key="user:42 name", value="Ada") == "Remembered under 'user:42 name'."
    others = by_name(memory_tools(memory))
    assert others["Recall"].run(key="user:42 name") == "Ada"
    assert others["Recall"].run(key="name") == "There is nothing under 'name'. The keys are: 'user:42 name'."
    assert others["Forget"].run(key="user:42 name") == "Forgot 'user:42 name'."
    assert others["Forget"].run(key="user:42 name").startswith("There is nothing")
    assert tools["List memories"].run() == "There are no keys."


def test_any_text_is_remembered(memory: Memory) -> None:
    odd = "the file says caf\udc97 \ud83d \0 🙂"
    tools = by_name(memory_tools(memory))
    tools["Remember"].run(key=odd, value=odd)
    assert tools["Recall"].run(key=odd) == odd
    assert tools["Search memories"].run(text="\ud83d") == f"{odd}: {odd}"


def test_values_of_other_clients_are_shown(memory: Memory) -> None:
    memory.set("profile", {"city": "Lisbon", "trips": [1, 2]})
    memory.set("number", 5)
    tools = by_name(memory_tools(memory))
    assert tools["Recall"].run(key="profile") == '{"city":"Lisbon","trips":[1,2]}'
    assert tools["Recall"].run(key="number") == "5"
    tools["Remember"].run(key="looks like JSON", value='{"a": 1}')
    assert memory.get("looks like JSON") == '{"a": 1}'


def test_lists_and_searches_are_bounded(memory: Memory) -> None:
    for number in range(230):
        memory.set(f"fact-{number:03}", f"The {number}th fact" + (" is LONG " + "x" * 1_000 if number == 7 else ""))
    tools = by_name(memory_tools(memory))
    assert tools["List memories"].run().endswith("and 30 more (ask for a prefix).")
    assert tools["List memories"].run(prefix="fact-00").count("'fact-") == 10
    assert tools["Search memories"].run(text="is long").startswith("fact-007: The 7th fact is LONG xxx")
    assert len(tools["Search memories"].run(text="is long")) < 330
    many = tools["Search memories"].run(text="TH FACT").splitlines()
    assert len(many) == 11
    assert many[-1] == "(220 more: look for a longer text)"
    assert tools["Search memories"].run(text="nowhere") == "Nothing in the memory contains 'nowhere'."


def test_tools_work_without_threads_of_their_own(memory: Memory) -> None:
    tools = by_name(memory_tools(memory))
    assert asyncio.run(tools["Remember"].arun(key="a", value="b")) == "Remembered under 'a'."
    assert asyncio.run(tools["Recall"].arun(key="a")) == "b"


def test_tools_say_first_what_is_wrong_with_the_memory() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        value = {"namespace": "n", "key": "a", "value": "b", "created_at": 1.0, "updated_at": 1.0}
        return httpx.Response(200, json=value, headers={"Botwired-State": "Upstream is away."})

    with httpx.Client(transport=httpx.MockTransport(answer)) as client, Memory("n", http=client) as memory:
        assert by_name(memory_tools(memory))["Recall"].run(key="a") == "Upstream is away.\nb"


def test_read_only_tools_change_nothing(memory: Memory) -> None:
    assert set(by_name(memory_tools(memory, read_only=True))) == {"Recall", "List memories", "Search memories"}


def test_a_value_that_is_too_long_is_refused_in_words(memory: Memory) -> None:
    with pytest.raises(Refused, match="100"):
        by_name(memory_tools(memory))["Remember"].run(key="long", value="x" * 100_001)


class Scripted(BaseLLM):
    """A model that says what the test wrote, and keeps what it was sent."""

    answers: list[str]
    seen: list[str] = Field(default_factory=list)

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        self.seen.append(str(messages))
        return self.answers.pop(0)


def act(tool: str, arguments: str) -> str:
    return f"Thought: I need the memory.\nAction: {tool}\nAction Input: {arguments}"


def test_a_crew_uses_the_tools(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    model = Scripted(
        model="scripted",
        answers=[
            act("remember", '{"key": "city", "value": "Lisbon"}'),
            act("recall", '{"key": "city"}'),
            act("remember", '{"key": "city", "value": "Porto"}'),
            act("recall", '{"key": "city"}'),
            "Thought: I now know the final answer\nFinal Answer: Porto",
        ],
    )
    agent = Agent(role="Clerk", goal="Remember", backstory="A clerk.", tools=memory_tools(memory), llm=model)
    task = Task(description="Remember where the user lives.", expected_output="A city", agent=agent)
    crew = Crew(agents=[agent], tasks=[task], cache=True)
    assert str(crew.kickoff()) == "Porto"
    assert memory.get("city") == "Porto"
    assert "Lisbon" in model.seen[2]
    assert "Observation: Porto" in model.seen[4], "the second answer to the same question is no cached one"
    assert crew.copy().agents[0].tools[0].memory is not None
