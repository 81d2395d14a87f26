from __future__ import annotations

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botwire import BotWireChatHistory
from conftest import Server
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

from botwired import AsyncMemory, Memory
from botwired.langchain import ChatMessageHistory

MESSAGES: list[BaseMessage] = [
    SystemMessage("You are kind."),
    HumanMessage("What is the time in Lisbon?", id="1", additional_kwargs={"a": [1, None]}),
    AIMessage("", tool_calls=[{"name": "clock", "args": {"city": "Lisbon"}, "id": "call_1"}]),
    ToolMessage("seven", tool_call_id="call_1"),
    AIMessage(
        [{"type": "text", "text": "Seven: é 🕖"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
]


def test_messages_come_back_as_they_were(memory: Memory) -> None:
    history = ChatMessageHistory("session", memory)
    assert history.messages == []
    history.add_messages(MESSAGES[:3])
    history.add_message(MESSAGES[3])
    history.add_messages(MESSAGES[4:])
    history.add_user_message("And now?")
    history.add_ai_message("Eight.")
    want = [*MESSAGES, HumanMessage("And now?"), AIMessage("Eight.")]
    assert ChatMessageHistory("session", memory).messages == want
    assert ChatMessageHistory("another", memory).messages == []
    history.clear()
    assert history.messages == []
    assert memory.list_keys() == []


async def test_the_asynchronous_methods(memory: Memory, async_memory: AsyncMemory) -> None:
    for history in (ChatMessageHistory("a", memory), ChatMessageHistory("b", async_memory)):
        await history.aadd_messages(MESSAGES)
        await asyncio.gather(
            *(history.aadd_messages([HumanMessage(str(n))]) for n in range(3 if history.session_id == "b" else 1))
        )
        assert (await history.aget_messages())[: len(MESSAGES)] == MESSAGES
        await history.aclear()
        assert await history.aget_messages() == []


def test_an_async_memory_has_no_blocking_methods() -> None:
    history = ChatMessageHistory("session", AsyncMemory("nowhere", "http://127.0.0.1:9"))
    with pytest.raises(TypeError, match="only asynchronous methods"):
        _ = history.messages
    with pytest.raises(TypeError, match="memory must be a Memory or an AsyncMemory, not str"):
        ChatMessageHistory("session", "namespace")  # type: ignore[arg-type]


@pytest.mark.parametrize("session_id", ["user:42", "ä/ö ü", "../..", "a" * 500, "x.y", "_.", "{}"])
def test_a_session_id_is_any_text(memory: Memory, session_id: str) -> None:
    ChatMessageHistory(session_id, memory).add_user_message("hello")
    ChatMessageHistory(session_id + "-", memory).add_user_message("other")
    assert [m.content for m in ChatMessageHistory(session_id, memory).messages] == ["hello"]


def test_a_history_of_botwires_own_class_goes_on(server: Server, namespace: str) -> None:
    own = BotWireChatHistory(session_id="user-42", namespace=namespace)
    own._mem.base_url = server.url  # it reads BOTWIRE_URL when it is imported
    for message in MESSAGES:
        own.add_message(message)
    with Memory(namespace, server.url) as memory:
        history = ChatMessageHistory("user-42", memory)
        assert history.messages == MESSAGES
        history.add_user_message("more")
        assert ChatMessageHistory("user-42", memory).messages == [*MESSAGES, HumanMessage("more")]
    own._mem._client.close()


def test_a_long_conversation(memory: Memory) -> None:
    """BotWire's own class ends at 100,000 characters."""
    history = ChatMessageHistory("long", memory)
    for number in range(60):
        history.add_user_message(f"{number}: " + "many words " * 300)
    assert [m.text.split(":")[0] for m in history.messages] == [str(number) for number in range(60)]
    history.add_user_message("x" * 300_000)
    assert len(history.messages[-1].text) == 300_000


def chain(memory: Memory, *answers: str) -> RunnableWithMessageHistory:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    model = GenericFakeChatModel(messages=iter([AIMessage(answer) for answer in answers]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the framework recommends LangGraph
        return RunnableWithMessageHistory(
            prompt | model,
            lambda session_id: ChatMessageHistory(session_id, memory),
            input_messages_key="input",
            history_messages_key="history",
        )


def test_a_runnable_with_message_history(memory: Memory) -> None:
    config: Any = {"configurable": {"session_id": "user:42"}}
    assert chain(memory, "Hello, Ada.").invoke({"input": "I am Ada."}, config).content == "Hello, Ada."
    assert chain(memory, "You are Ada.").invoke({"input": "Who am I?"}, config).content == "You are Ada."
    assert [m.content for m in ChatMessageHistory("user:42", memory).messages] == [
        "I am Ada.", "Hello, Ada.", "Who am I?", "You are Ada.",
    ]  # fmt: skip


async def test_the_same_asynchronously(memory: Memory) -> None:
    config: Any = {"configurable": {"session_id": "user:42"}}
    await chain(memory, "Hello, Ada.").ainvoke({"input": "I am Ada."}, config)
    assert [m.content for m in await ChatMessageHistory("user:42", memory).aget_messages()] == [
        "I am Ada.",
        "Hello, Ada.",
    ]


def test_two_processes_of_one_session(daemon: Server, namespace: str) -> None:
    def work(writer: int) -> None:
        with Memory(namespace, daemon.url) as memory:
            for number in range(20):
                ChatMessageHistory("shared", memory).add_user_message(f"{writer} {number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    with Memory(namespace, daemon.url) as memory:
        got = [m.text for m in ChatMessageHistory("shared", memory).messages]
    assert sorted(got) == sorted(f"{writer} {number}" for writer in range(4) for number in range(20))
