"""Each call that a guide of BotWire's makes does what the guide says, or says why it cannot."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from botwired import AsyncMemory, Memory

if TYPE_CHECKING:
    from servers import Server

COMPUTED = {"computed": ["by", "the", "guide"]}
KEYS_OF = {"list", "keys", "list_keys"}


class Call(NamedTuple):
    """A row of guides.txt."""

    text: str
    is_awaited: bool
    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def parse(row: str) -> Call:
    """Return the call of a row, with values for what the guide computes."""
    node = ast.parse(row, mode="eval").body
    if isinstance(node, ast.Compare):
        return Call(row, False, "in", (argument(node.left),), {})
    is_awaited = isinstance(node, ast.Await)
    call = node.value if isinstance(node, ast.Await) else node
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    named = {keyword.arg: argument(keyword.value) for keyword in call.keywords if keyword.arg}
    return Call(row, is_awaited, call.func.id, tuple(argument(a) for a in call.args), named)


def argument(node: ast.expr) -> Any:
    """Return an argument: a `...` for a key is a text, too, as the value of it is none of the call's business."""
    value = ast.literal_eval(node)
    if value is ...:
        return COMPUTED
    return value.replace("{}", "42:é") if isinstance(value, str) else value


def rows() -> list[Call]:
    """Return all calls of the guides."""
    lines = (Path(__file__).parent / "guides.txt").read_text(encoding="utf-8").splitlines()
    return [parse(line.partition("\t")[0]) for line in lines if not line.startswith("#")]


def key_of(call: Call) -> str:
    """Return the call's key, and one if the guide computes it."""
    key = call.arguments[0]
    return key if isinstance(key, str) else "computed:by/the guide"


CALLS = rows()


def named(*names: str) -> pytest.MarkDecorator:
    """Return the mark for a test of the calls of these methods."""
    found = [c for c in CALLS if c.name in names and not c.is_awaited]
    assert found
    return pytest.mark.parametrize("call", found, ids=lambda c: c.text)


def test_every_row_is_tried() -> None:
    tried = KEYS_OF | {"Memory", "set", "get", "delete", "exists", "clear", "in", "store", "recall"}
    assert {c.name for c in CALLS} == tried
    assert len(CALLS) > 500


@pytest.fixture
def memory(server: Server, namespace: str) -> Any:
    with Memory(namespace, base_url=server.url) as memory:
        yield memory


@named("Memory")
def test_memory(server: Server, call: Call) -> None:
    namespace = key_of(call)
    assert not call.arguments[1:]
    assert not call.named
    with Memory(namespace, base_url=server.url) as memory:
        memory.set("user_name", namespace)
        assert memory.get("user_name") == namespace


@named("set")
def test_set(memory: Memory, call: Call) -> None:
    key, value = key_of(call), call.arguments[1]
    if call.named:
        assert all(name.startswith("ttl") for name in call.named)
        with pytest.raises(TypeError, match="there is no ttl: BotWire ignores it"):
            memory.set(key, value, **call.named)
        assert memory.get(key) is None
        return
    memory.set(key, value)
    assert memory.get(key) == value
    assert memory.list_keys() == [key]


@named("get")
def test_get(memory: Memory, call: Call) -> None:
    key = key_of(call)
    default = call.named.get("default", call.arguments[1] if len(call.arguments) > 1 else None)
    assert memory.get(key, *call.arguments[1:], **call.named) == default
    memory.set(key, COMPUTED)
    assert memory.get(key, *call.arguments[1:], **call.named) == COMPUTED


@named("delete")
def test_delete(memory: Memory, call: Call) -> None:
    key = key_of(call)
    memory.delete(key)
    memory.set(key, COMPUTED)
    memory.delete(key)
    assert memory.get(key) is None


@named("exists", "in")
def test_exists(memory: Memory, call: Call) -> None:
    key = key_of(call)
    exists = memory.exists if call.name == "exists" else memory.__contains__
    assert not exists(key)
    memory.set(key, COMPUTED)
    assert exists(key)


@named("list", "keys", "list_keys")
def test_list(memory: Memory, call: Call) -> None:
    keys = ["user:42:preferences", "user:42:summary"]
    for key in [*keys, "team"]:
        memory.set(key, COMPUTED)
    found = getattr(memory, call.name)(*call.arguments)
    assert sorted(found) == sorted(keys if call.arguments else [*keys, "team"])


@named("clear")
def test_clear(memory: Memory, call: Call) -> None:
    memory.set("user:42", COMPUTED)
    memory.clear(*call.arguments)
    assert memory.list_keys() == []


@named("store", "recall")
def test_methods_that_never_were(memory: Memory, call: Call) -> None:
    with pytest.raises(AttributeError, match=f"'Memory' object has no attribute '{call.name}'"):
        getattr(memory, call.name)


@pytest.mark.parametrize("call", [c for c in CALLS if c.is_awaited], ids=lambda c: c.text)
def test_await(server: Server, namespace: str, call: Call) -> None:
    async def make() -> Any:
        async with AsyncMemory(namespace, base_url=server.url) as memory:
            await getattr(memory, call.name)(*call.arguments, **call.named)
            return await memory.list_keys()

    assert asyncio.run(make()) == ([key_of(call)] if call.name == "set" else [])


def test_await_of_a_memory_that_is_not_async(memory: Memory) -> None:
    async def make() -> Any:
        return await memory.set("k", 1)  # type: ignore[misc]

    with pytest.raises(TypeError, match="'await' needs an AsyncMemory"):
        asyncio.run(make())
