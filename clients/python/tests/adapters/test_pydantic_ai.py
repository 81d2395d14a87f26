from __future__ import annotations

import random
from dataclasses import replace

import pytest
from conftest import Server
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage

from botwired import AsyncMemory, Error
from botwired.pydantic_ai import MemoryConversationStore


def message(text: str) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(content=text)])


class Pair:
    """Pydantic AI's own store in memory, and ours: both must answer alike, but for the ids that they make."""

    def __init__(self, ours: ConversationStore) -> None:
        self.stores: tuple[ConversationStore, ...] = (InMemoryConversationStore(), ours)
        self.loaded: dict[str, list[Conversation]] = {}  # what both have given last, also when it is outdated by now

    async def load(self, name: str) -> None:
        both = [await store.load(name) for store in self.stores]
        assert (both[0] is None) == (both[1] is None)
        self.loaded[name] = [talk or Conversation(conversation_id=name) for talk in both]

    async def save(self, name: str, added: list[ModelMessage], keep: int | None, scope: str | None) -> None:
        outcomes = []
        for store, talk in zip(self.stores, self.loaded[name], strict=True):
            talk.messages[keep:] = added if keep is not None else [*talk.messages[len(talk.messages) :], *added]
            talk.usage = RunUsage(requests=len(talk.messages))
            try:
                outcomes.append([entry.message for entry in await store.save(talk, scope=scope)])
            except ConversationConflict:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]

    async def branch(self, name: str, share: float, left: bool) -> None:
        outcomes = []
        for store, talk in zip(self.stores, self.loaded[name], strict=True):
            record = await store.read_record(name)
            history = await store.load_entries(name) or []
            if left and record and record.branches:
                tip = record.branches[int(share * len(record.branches))]
                how = {"from_entry": tip}
            else:
                how = {"at": int(share * (len(history) + 1))}
            try:
                branched = await store.branch(name, **how, expected_revision=talk.revision)
                talk.__dict__.update(branched.__dict__)
                outcomes.append(branched.messages)
            except (ConversationConflict, UserError) as e:
                outcomes.append(type(e))
        assert outcomes[0] == outcomes[1]

    async def fork(self, name: str, new: str, share: float) -> None:
        outcomes = []
        for store in self.stores:
            history = await store.load_entries(name) or []
            try:
                forked = await store.fork(name, at=int(share * (len(history) + 1)), new_conversation_id=new)
                outcomes.append((forked.messages, forked.usage))
            except (ConversationConflict, UserError) as e:
                outcomes.append(type(e))
        assert outcomes[0] == outcomes[1]

    async def delete(self, name: str) -> None:
        for store in self.stores:
            await store.delete(name)

    async def check(self, names: list[str]) -> None:
        shown = []
        for store in self.stores:
            seen = {}
            for name in names:
                record = await store.read_record(name)
                entries = await store.load_entries(name)
                last = await store.load(name, limit=3)
                branches = (
                    [[e.message for e in await store.read_history(tip)] for tip in record.branches] if record else []
                )
                like = record and replace(record, head_id="", revision="", branches=[], updated_at=None, forked_at=None)
                assert not entries or record is None or entries[-1].id == record.head_id
                assert not entries or entries[-1] == await store.read_entry(entries[-1].id)
                seen[name] = (like, entries and [e.message for e in entries], last and last.messages, branches)
            listed = [[r.conversation_id for r in await store.list_conversations(scope=s)] for s in (None, "a", "b")]
            shown.append((seen, [sorted(ids) for ids in listed], listed[0]))
        assert shown[0] == shown[1]


@pytest.mark.parametrize("seed", range(3))
async def test_the_store_does_what_pydantic_ais_own_does(async_memory: AsyncMemory, seed: int) -> None:
    dice = random.Random(seed)
    pair = Pair(MemoryConversationStore(async_memory, segment_chars=700))
    names = ["one", "zwei:ß", "3" * 150]
    for name in names:
        await pair.load(name)
    for number in range(40):
        name = dice.choice(names)
        match dice.choice(["turn", "turn", "turn", "turn", "load", "rewrite", "branch", "left", "fork", "delete"]):
            case "turn":
                if dice.random() < 0.8:  # else it may be outdated, and the save a conflict
                    await pair.load(name)
                added = [message(f"{number}.{i} " + "x" * dice.randrange(300)) for i in range(dice.randrange(4))]
                await pair.save(name, added, None, dice.choice([None, None, None, "a", "b"]))
            case "rewrite":
                await pair.load(name)
                await pair.save(name, [message(f"anew {number}")], dice.randrange(5), None)
            case "load":
                await pair.load(name)
            case "branch" | "left" as how:
                await pair.load(name)
                await pair.branch(name, dice.random(), how == "left")
            case "fork":
                await pair.fork(name, dice.choice(names), dice.random())
            case "delete" if dice.random() < 0.4:
                await pair.delete(name)
        if number % 4 == 0:
            await pair.check(names)
    await pair.check(names)
    for name in names:
        await pair.delete(name)
    assert await async_memory.list_keys() == [], "nothing stays of deleted conversations"


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    said = [part.content for m in messages for part in m.parts if isinstance(part, UserPromptPart)]
    return ModelResponse(parts=[TextPart(content=f"You have said {len(said)} things, first {said[0]!r}.")])


async def test_another_process_goes_on_with_an_agents_conversation(async_memory: AsyncMemory) -> None:
    agent = Agent(FunctionModel(answer))
    for number in range(3):
        store = MemoryConversationStore(async_memory)  # as a new process has it
        talk = await store.load("user:42") or Conversation(conversation_id="user:42")
        result = await agent.run(f"message {number}", conversation=talk)
        await store.save(result, scope="ada")
        assert result.output == f"You have said {number + 1} things, first 'message 0'."
    [record] = await store.list_conversations(scope="ada")
    assert record.usage.requests == 3


async def test_messages_of_all_kinds_and_lengths_come_back(async_memory: AsyncMemory) -> None:
    picture = BinaryContent(data=bytes(range(256)) * 500, media_type="image/png")
    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(content=["What is this?", picture])], metadata={"a": 1}),
        ModelResponse(parts=[ToolCallPart("look", {"at": "é\x00😀"}, tool_call_id="1")], model_name="m"),
        ModelRequest(parts=[ToolReturnPart("look", content={"seen": ["x" * 150_000]}, tool_call_id="1")]),
        ModelResponse(parts=[TextPart(content="y" * 99_999)]),
    ]
    asked = DeferredToolRequests(
        approvals=[ToolCallPart("pay", {"cents": 5}, tool_call_id="2")], metadata={"2": {"b": 1}}
    )
    talk = Conversation(messages=messages, conversation_id="all", deferred_tool_requests=asked)
    await MemoryConversationStore(async_memory).save(talk)
    found = await MemoryConversationStore(async_memory).load("all")
    assert found is not None
    assert found.messages == ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
    assert found.deferred_tool_requests == asked
    for key in await async_memory.list_keys():
        entry = await async_memory.entry(key)
        assert entry is not None
        assert len(entry.text) <= 100_000


async def test_of_two_who_save_one_gets_a_conflict(daemon: Server, namespace: str) -> None:
    async with AsyncMemory(namespace, daemon.url) as memory:
        await MemoryConversationStore(memory).save(Conversation(messages=[message("first")], conversation_id="both"))
        stores = [MemoryConversationStore(memory) for _ in range(2)]
        talks = [await store.load("both") for store in stores]
        late = await stores[0].read_record("both")
        assert late is not None
        for number, talk in enumerate(talks):
            assert talk is not None
            talk.messages.append(message(f"of {number} " + "long " * 5_000))
            if number == 1:
                await stores[1].save(talk)
        with pytest.raises(ConversationConflict):
            await stores[0].save(talks[0])
        entry = ConversationEntry(parent_id=late.head_id, message=talks[0].messages[1])
        with pytest.raises(ConversationConflict):  # it has compared before the other one has written
            await stores[0].write_record(
                replace(late, head_id=entry.id, revision="new"), new_entries=[entry], expected_revision=late.revision
            )
        there = await stores[0].load("both")
        assert there.messages == talks[1].messages
        await stores[0].delete("both")
        assert await memory.list_keys() == [], "nor does anything stay of the saves in conflict"


async def test_a_foreign_value_is_left_as_it_is(async_memory: AsyncMemory) -> None:
    await async_memory.set("conversation.x", "a note")
    with pytest.raises(Error, match="holds something else than a conversation"):
        await MemoryConversationStore(async_memory).load("x")


def test_a_segment_has_a_length(async_memory: AsyncMemory) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        MemoryConversationStore(async_memory, segment_chars=0)
