from __future__ import annotations

import asyncio
import base64
import operator
import os
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import ormsgpack
import pytest
from conftest import Server
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from botwired import AsyncMemory, Error, Memory, Refused, Unavailable
from botwired._langgraph_threads import _all_texts
from botwired.langgraph import CheckpointSaver

Text = Annotated[list[str], operator.add]


class State(TypedDict):
    texts: Text


def build(saver: CheckpointSaver, steps: int = 5, text: str = "step") -> Any:
    """A graph of some steps, of which the third asks a person."""
    builder = StateGraph(State)

    def step(number: int) -> Callable[[State], State]:
        def run(state: State) -> State:
            said = f" {interrupt('go on?')}" if number == 3 else ""
            return {"texts": [f"{text} {number}{said}"]}

        return run

    for number in range(1, steps + 1):
        builder.add_node(f"step{number}", step(number))
        builder.add_edge(f"step{number - 1}" if number > 1 else START, f"step{number}")
    builder.add_edge(f"step{steps}", END)
    return builder.compile(checkpointer=saver)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


@dataclass
class Mood:
    name: str


def test_a_checkpoint_calls_no_function_that_a_stranger_has_named(memory: Memory, tmp_path: Path) -> None:
    """BotWire has no authentication: anybody may have written the entry."""
    trace = tmp_path / "called"
    call = ormsgpack.packb(("os", "mkdir", str(trace)))
    with_arguments = ormsgpack.packb(("os", "mkdir", (str(trace),)))
    with_names = ormsgpack.packb(("os", "mkdir", {"path": str(trace)}))
    for code, payload in enumerate([call, with_arguments, with_names]):
        hostile = base64.b64encode(zlib.compress(ormsgpack.packb(ormsgpack.Ext(code, payload)))).decode()
        fields = {"id": "1", "parent": None, "writes": []}
        fields |= {"checkpoint": f"msgpack:{hostile}", "metadata": f"msgpack:{hostile}"}
        memory.set("threads/t/", {"checkpoints": [fields], "early": {}})
        CheckpointSaver(memory).get_tuple(thread("t"))
        assert not trace.exists()


def test_a_class_of_the_caller_is_restored_if_the_caller_allows_it(memory: Memory) -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[Mood])
    for saver, expected in [(CheckpointSaver(memory, serde=serde), Mood("glad")), (CheckpointSaver(memory), None)]:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint = {**empty_checkpoint(), "channel_values": {"mood": Mood("glad")}}
        found = saver.get_tuple(saver.put(config, checkpoint, {}, {}))  # type: ignore[arg-type]
        assert found is not None
        mood = found.checkpoint["channel_values"]["mood"]
        assert mood == expected if expected else not isinstance(mood, Mood)


def test_an_interrupt_goes_on_in_another_process(memory: Memory) -> None:
    config = thread("user:42/é")
    first = build(CheckpointSaver(memory)).invoke({"texts": ["hello"]}, config)
    assert first["__interrupt__"][0].value == "go on?"
    graph = build(CheckpointSaver(memory))
    assert graph.get_state(config).next == ("step3",)
    assert graph.get_state(config).tasks[0].interrupts[0].value == "go on?"
    texts = ["hello", "step 1", "step 2", "step 3 yes", "step 4", "step 5"]
    assert graph.invoke(Command(resume="yes"), config)["texts"] == texts
    assert build(CheckpointSaver(memory)).get_state(config).values["texts"] == texts
    assert len(memory.list_keys()) == 1, "a thread is one entry"
    CheckpointSaver(memory).delete_thread("user:42/é")
    assert memory.list_keys() == []


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_the_same_asynchronously(memory: Memory, async_memory: AsyncMemory, durability: Any) -> None:
    for saver in (CheckpointSaver(memory), CheckpointSaver(async_memory)):
        config = thread(uuid.uuid4().hex)
        await build(saver).ainvoke({"texts": []}, config, durability=durability)
        done = await build(saver).ainvoke(Command(resume="yes"), config, durability=durability)
        assert done["texts"] == ["step 1", "step 2", "step 3 yes", "step 4", "step 5"]
        assert (await build(saver).aget_state(config)).values == done
        assert len([checkpoint async for checkpoint in saver.alist(config)]) == 1


AGENT = """
import operator, os, sys
from typing import Annotated, TypedDict
from botwired import Memory
from botwired.langgraph import CheckpointSaver
from langgraph.graph import StateGraph, START, END

class State(TypedDict):
    texts: Annotated[list[str], operator.add]

def step(number):
    def run(state):
        with open(sys.argv[1], "a") as f:
            f.write(f"{number}\\n")
        if number == 4 and len(open(sys.argv[1]).readlines()) == 4:
            os.kill(os.getpid(), 9)
        return {"texts": [str(number)]}
    return run

builder = StateGraph(State)
for n in range(1, 7):
    builder.add_node(f"step{n}", step(n))
    builder.add_edge(f"step{n - 1}" if n > 1 else START, f"step{n}")
builder.add_edge("step6", END)
graph = builder.compile(checkpointer=CheckpointSaver(Memory(os.environ["NAMESPACE"])))
config = {"configurable": {"thread_id": "1"}}
start = None if graph.get_state(config).next else {"texts": []}
print(graph.invoke(start, config, durability="sync")["texts"])
"""


def test_a_killed_agent_goes_on_with_the_step_it_was_at(server: Server, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    environment = {**os.environ, "BOTWIRE_URL": server.url, "NAMESPACE": namespace}

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "agent.py"), str(tmp_path / "steps")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert run().returncode == -9
    second = run()
    assert second.stdout == "['1', '2', '3', '4', '5', '6']\n", second.stderr
    assert (tmp_path / "steps").read_text().split() == ["1", "2", "3", "4", "4", "5", "6"]


def test_a_killed_daemon_loses_no_checkpoint(own_daemon: Callable[[], Server], namespace: str) -> None:
    daemon = own_daemon()
    with Memory(namespace, daemon.url) as memory:
        config = thread("1")
        build(CheckpointSaver(memory)).invoke({"texts": []}, config)
        before = CheckpointSaver(memory).get_tuple(config)
        daemon.kill()
        daemon.start()
        assert CheckpointSaver(memory).get_tuple(config) == before
        assert build(CheckpointSaver(memory)).invoke(Command(resume="yes"), config)["texts"][-1] == "step 5"


def test_parallel_tasks_fail_together_where_the_daemon_has_gone(
    own_daemon: Callable[[], Server], namespace: str
) -> None:
    """Each has its patience from its call on, and not from its turn on."""
    daemon = own_daemon()
    with Memory(namespace, daemon.url, patience=1) as memory, ThreadPoolExecutor(10) as pool:
        saver, first = CheckpointSaver(memory), empty_checkpoint()
        saver.put(_at(None), first, {"step": 0}, {})
        daemon.kill()
        began = time.monotonic()
        done = [pool.submit(saver.put_writes, _at(first["id"]), [("texts", "x")], f"task {n}") for n in range(10)]
        assert {type(each.exception(60)) for each in done} == {Unavailable}
        assert time.monotonic() - began < 5
    daemon.start()


def test_parallel_tasks_and_a_subgraph(memory: Memory) -> None:
    """The tasks of a step write to the thread at once, and a subgraph has checkpoints of its own."""
    inner = StateGraph(State)
    inner.add_node("ask", lambda _: {"texts": [interrupt("inner?")]})
    inner.add_edge(START, "ask")
    outer = StateGraph(State)
    outer.add_node("fan", lambda _: {})
    outer.add_node("work", lambda state: {"texts": [state["name"]]})
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "fan")
    outer.add_conditional_edges("fan", lambda _: [Send("work", {"name": str(number)}) for number in range(20)])
    outer.add_edge("work", "inner")
    graph = outer.compile(checkpointer=CheckpointSaver(memory))
    config = thread("1")
    assert graph.invoke({"texts": []}, config)["__interrupt__"][0].value == "inner?"
    state = graph.get_state(config, subgraphs=True)
    assert len(state.tasks[0].state.values["texts"]) == 20
    done = outer.compile(checkpointer=CheckpointSaver(memory)).invoke(Command(resume="yes"), config)
    assert sorted(done["texts"][:20], key=int) == [str(number) for number in range(20)]
    assert done["texts"][-1] == "yes"
    CheckpointSaver(memory).delete_thread("1")
    assert memory.list_keys() == []


def test_a_task_that_fails_keeps_the_writes_of_the_others(memory: Memory) -> None:
    runs: list[str] = []

    def work(name: str) -> Callable[[State], State]:
        def run(_: State) -> State:
            runs.append(name)
            if name == "bad" and runs.count("bad") == 1:
                raise RuntimeError("the first time")
            return {"texts": [name]}

        return run

    def graph() -> Any:
        builder = StateGraph(State)
        for name in ("good", "bad"):
            builder.add_node(name, work(name))
            builder.add_edge(START, name)
        return builder.compile(checkpointer=CheckpointSaver(memory))

    with pytest.raises(RuntimeError, match="the first time"):
        graph().invoke({"texts": []}, thread("1"))
    assert sorted(graph().invoke(None, thread("1"))["texts"]) == ["bad", "good"]
    assert sorted(runs) == ["bad", "bad", "good"], "the task that was done is not run again"


def test_a_checkpoint_longer_than_a_value(memory: Memory) -> None:
    config, text = thread("long"), os.urandom(150_000).hex()
    build(CheckpointSaver(memory), text=text).invoke({"texts": []}, config)
    done = build(CheckpointSaver(memory), text=text).invoke(Command(resume="yes"), config)
    assert done["texts"] == [f"{text} {number}{' yes' if number == 3 else ''}" for number in range(1, 6)]
    parts = [key for key in memory.list_keys() if "~parts" in key]
    entry = memory.get("threads/long/")
    assert sorted(key.rsplit("/", 1)[1] for key in parts) == sorted(
        name for text in ("checkpoint", "metadata") for name in entry["checkpoints"][0][text] if len(name) == 16
    ), "parts are left that nothing names"
    CheckpointSaver(memory).delete_thread("long")
    assert memory.list_keys() == []


def test_a_checkpoint_that_is_written_is_no_error(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full journal may refuse to delete the parts of the checkpoint before."""

    def refuse(*_: Any, **__: Any) -> bool:
        raise Refused(507, "the disk is full")

    config, text = thread("long"), os.urandom(150_000).hex()
    monkeypatch.setattr(Memory, "delete", refuse)
    build(CheckpointSaver(memory), text=text).invoke({"texts": []}, config)
    done = build(CheckpointSaver(memory), text=text).invoke(Command(resume="yes"), config)
    assert len(done["texts"]) == 5


def test_a_lost_part_is_said(memory: Memory) -> None:
    config = thread("long")
    build(CheckpointSaver(memory), text=os.urandom(150_000).hex()).invoke({"texts": []}, config)
    memory.delete(next(key for key in memory.list_keys() if "~parts" in key))
    with pytest.raises(Error, match="parts of the thread 'long' are missing"):
        CheckpointSaver(memory).get_tuple(config)
    CheckpointSaver(memory).delete_thread("long")
    assert CheckpointSaver(memory).get_tuple(config) is None


def test_a_saver_that_keeps_more_goes_back(memory: Memory) -> None:
    config, saver = thread("1"), CheckpointSaver(memory, keep=3)
    build(saver).invoke({"texts": []}, config)
    build(saver).invoke(Command(resume="yes"), config)
    history = list(build(saver).get_state_history(config))
    assert [state.values["texts"][-1] for state in history] == ["step 5", "step 4", "step 3 yes"]
    again = build(saver, text="other").invoke(None, history[2].config)
    assert again["texts"][-2:] == ["other 4", "other 5"]
    assert len(list(saver.list(None))) == 3
    assert list(saver.list(config, limit=1)) == list(saver.list(config))[:1]


def test_keys_of_others_beside_the_threads(memory: Memory) -> None:
    build(CheckpointSaver(memory)).invoke({"texts": []}, thread("1"))
    for key in ("threads/notes", "threads/a/b/c"):
        memory.set(key, "mine")
    assert len(list(CheckpointSaver(memory).list(None))) == 1


def test_a_saver_keeps_no_more_than_fit_into_an_entry(memory: Memory) -> None:
    saver, last = CheckpointSaver(memory, keep=1000), None
    for step in range(12):
        checkpoint = empty_checkpoint()
        saver.put(_at(last), checkpoint, {"step": step}, {})
        last = checkpoint["id"]
        saver.put_writes(_at(last), [("texts", "a value")], "task", "a long path" * 1000)
    kept = list(saver.list(_at(None)))
    assert 1 < len(kept) < 12
    assert kept[0].config["configurable"]["checkpoint_id"] == last
    assert kept[0].pending_writes == [("task", "texts", "a value")]
    thread_of = memory.get("threads/1/")
    named = {part for fields, name in _all_texts(thread_of) if isinstance(fields[name], list) for part in fields[name]}
    assert set(memory.list_keys("threads/1/~parts/")) == {f"threads/1/~parts/{part}" for part in named}


def test_writes_that_come_before_their_checkpoint(memory: Memory) -> None:
    """LangGraph hands both to threads of a pool."""
    saver = CheckpointSaver(memory)
    first, second = empty_checkpoint(), empty_checkpoint()
    saver.put(_at(None), first, {"step": 0}, {})
    saver.put_writes(_at(second["id"]), [("texts", "early")], "task")
    saver.put(_at(first["id"]), second, {"step": 1}, {})
    saver.put_writes(_at(first["id"]), [("texts", "late")], "task")
    found = saver.get_tuple(_at(None))
    assert found is not None
    assert (found.checkpoint["id"], found.pending_writes) == (second["id"], [("task", "texts", "early")])
    saver.put(_at(first["id"]), second, {"step": 1}, {})
    assert saver.get_tuple(_at(None)) == found


def _at(checkpoint_id: str | None) -> Any:
    return {"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}


def test_concurrent_writes_to_a_checkpoint_lose_nothing(daemon: Server, namespace: str) -> None:
    checkpoint = empty_checkpoint()
    with Memory(namespace, daemon.url) as memory:
        CheckpointSaver(memory).put(_at(None), checkpoint, {}, {})

    def write(task: int) -> None:
        with Memory(namespace, daemon.url) as memory:
            for number in range(10):
                CheckpointSaver(memory).put_writes(
                    _at(checkpoint["id"]), [("texts", number)], f"{task}-{number}", f"{task}"
                )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with Memory(namespace, daemon.url) as memory:
        found = CheckpointSaver(memory).get_tuple(_at(None))
    assert found is not None
    assert [task for task, _, _ in found.pending_writes or []] == [
        f"{task}-{n}" for task in range(4) for n in range(10)
    ]


async def test_concurrent_threads(async_memory: AsyncMemory) -> None:
    saver = CheckpointSaver(async_memory)
    await asyncio.gather(*(build(saver).ainvoke({"texts": [str(n)]}, thread(str(n))) for n in range(10)))
    for number in range(10):
        assert (await build(saver).aget_state(thread(str(number)))).values["texts"][0] == str(number)


def test_bad_arguments_and_foreign_values(memory: Memory) -> None:
    with pytest.raises(ValueError, match="keep is 0: it must be 1 or more"):
        CheckpointSaver(memory, keep=0)
    memory.set("threads/1/", "a text")
    with pytest.raises(Error, match="something else than a thread"):
        CheckpointSaver(memory).get_tuple(thread("1"))


def test_a_delta_channel_is_refused(memory: Memory) -> None:
    class Deltas(TypedDict):
        texts: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(text for texts in new for text in texts)])]

    builder = StateGraph(Deltas)
    builder.add_node("step", lambda _: {"texts": ["x"]})
    builder.add_edge(START, "step")
    graph = builder.compile(checkpointer=CheckpointSaver(memory))
    with pytest.raises(NotImplementedError, match="DeltaChannel needs all of them"):
        graph.invoke({"texts": ["hello"]}, thread("1"), durability="sync")


def test_messages_of_a_chat(memory: Memory) -> None:
    def graph() -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("model", lambda state: {"messages": [("ai", f"that was {len(state['messages'])}")]})
        builder.add_edge(START, "model")
        return builder.compile(checkpointer=CheckpointSaver(memory))

    for number in range(3):
        last = graph().invoke({"messages": [("human", f"message {number}")]}, thread("chat"))
    assert [message.text for message in last["messages"]] == [
        "message 0", "that was 1", "message 1", "that was 3", "message 2", "that was 5",
    ]  # fmt: skip
