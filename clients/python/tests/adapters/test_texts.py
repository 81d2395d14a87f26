"""A turn is never lost for its text: what a tool reads from a file, or an emoji that a limit has cut in two."""

from __future__ import annotations

import operator
import random
from typing import Annotated, Any

import pytest
from agents import Agent, Runner
from agents.testing import ScriptedModel, assistant_message
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from llama_index.core.llms import ChatMessage
from pydantic_ai import BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from typing_extensions import TypedDict

from botwired import AsyncMemory, Memory
from botwired._log import Log
from botwired._values import joined
from botwired.claude import MemoryTool
from botwired.langchain import ChatMessageHistory
from botwired.langgraph import CheckpointSaver, Store
from botwired.llama_index import MemoryChatStore, MemoryKVStore
from botwired.openai_agents import MemorySession
from botwired.pydantic_ai import MemoryConversationStore

ODD = [
    "\0",
    "\ud83d",
    "\udc97",
    "\udfff",
    "\ufeff",
    "\uffff",
    "\u2028",
    "\x1b",
    "\x7f",
    '"',
    "\\",
    "\\ud83d",
    "🙂",
    "é",
]


def text(dice: random.Random, length: int) -> str:
    """Return a text of odd characters. Two halves of a character side by side are the character, as in JSON."""
    return joined("".join(dice.choice([*ODD, chr(dice.randrange(0x110000)), "plain "]) for _ in range(length)))


LENGTHS = pytest.mark.parametrize("length", [1, 5, 200, 60_000])


@pytest.fixture
def odd(length: int) -> str:
    return text(random.Random(length), length)


@pytest.fixture
def name(odd: str) -> str:
    """The name of a conversation: BotWire's 100,000 characters of a value have room for it, too."""
    return odd[:100]


@LENGTHS
def test_a_log(memory: Memory, name: str, odd: str) -> None:
    log = Log(memory, name)
    for i in range(3):
        log.append([odd, {odd: i}])
    assert Log(memory, name).read() == [odd, {odd: 0}, odd, {odd: 1}, odd, {odd: 2}]
    assert log.pop() == {odd: 2}


@LENGTHS
def test_langchain(memory: Memory, name: str, odd: str) -> None:
    ChatMessageHistory(name, memory).add_messages([HumanMessage(odd), AIMessage(odd, additional_kwargs={odd: odd})])
    found = ChatMessageHistory(name, memory).messages
    assert [message.content for message in found] == [odd, odd]
    assert found[1].additional_kwargs == {odd: odd}


@LENGTHS
async def test_openai_agents(async_memory: AsyncMemory, name: str, odd: str) -> None:
    agent = Agent(name="A", model=ScriptedModel([[assistant_message(odd)]]))
    await Runner.run(agent, odd, session=MemorySession(name, async_memory))
    first, last = [dict(item) for item in await MemorySession(name, async_memory).get_items()]
    assert first["content"] == odd
    content: Any = last["content"]
    assert content[0]["text"] == odd


@LENGTHS
async def test_pydantic_ai(async_memory: AsyncMemory, name: str, odd: str) -> None:
    parts = [
        UserPromptPart(content=[odd, BinaryContent(b"\xff\x00", media_type="application/pdf")]),
        ToolReturnPart(tool_name="read", content={"text": [odd]}, tool_call_id="1"),
    ]
    talk = Conversation(conversation_id=name)
    talk.messages.append(ModelRequest(parts=parts))
    await MemoryConversationStore(async_memory).save(talk, scope=name)
    store = MemoryConversationStore(async_memory)
    assert [record.conversation_id for record in await store.list_conversations(scope=name)] == [name]
    found = await store.load(name)
    assert found is not None
    assert found.messages == talk.messages


@LENGTHS
def test_llama_index(memory: Memory, name: str, odd: str) -> None:
    chats, values = MemoryChatStore(memory), MemoryKVStore(memory)
    chats.add_message(name, ChatMessage(content=odd))
    values.put(name, {odd: odd}, name)
    assert [message.content for message in chats.get_messages(name)] == [odd]
    assert chats.get_keys() == [name]
    assert values.get_all(name) == {name: {odd: odd}}


@LENGTHS
def test_langgraphs_store(memory: Memory, name: str, odd: str) -> None:
    label = name.replace("\0", "").replace(".", "") + "x"  # LangGraph refuses others
    Store(memory).put((label,), name, {odd: [odd]})
    [item] = Store(memory).search((label,))
    assert (item.namespace, item.key, item.value) == ((label,), name, {odd: [odd]})


class State(TypedDict):
    texts: Annotated[list[str], operator.add]


@LENGTHS
def test_langgraphs_checkpoints(memory: Memory, name: str, odd: str) -> None:
    """LangGraph's own serializer has a question mark for a lone surrogate: all else is kept."""
    builder = StateGraph(State)
    builder.add_node("read", lambda state: {"texts": [odd]})
    builder.add_edge(START, "read")
    builder.add_edge("read", END)
    config: Any = {"configurable": {"thread_id": name}}
    builder.compile(checkpointer=CheckpointSaver(memory)).invoke({"texts": [odd]}, config)
    found = builder.compile(checkpointer=CheckpointSaver(memory)).get_state(config)
    assert found.values["texts"] == [odd.encode(errors="replace").decode()] * 2


@LENGTHS
def test_claude(memory: Memory, name: str, odd: str) -> None:
    path, tool = "/memories/" + name.replace("\0", "").replace("/", "") + "x", MemoryTool(memory)
    tool.call({"command": "create", "path": path, "file_text": odd})
    assert path in str(tool.call({"command": "view", "path": "/memories"}))
    tool.call({"command": "insert", "path": path, "insert_line": 0, "insert_text": "\ud83d"})
    lines = "\n".join(str(tool.call({"command": "view", "path": path})).split("\n")[1:])
    assert lines.startswith("     1\t\ud83d\n     2\t" + odd.split("\n", maxsplit=1)[0])
