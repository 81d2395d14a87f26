from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from conftest import Server

from botwired import AsyncMemory, Memory, Refused
from botwired.claude import AsyncMemoryTool, MemoryTool

PATHS = [
    "a.md",
    "b.txt",
    "dir/a.md",
    "dir/.hidden",
    "dir/deep/er.md",
    "dir/deep/a/b.md",
    "ä ö.json",
    "dir2/x",
    ".h/x",
    "dir",
]
LINES = ["one", "two", "", "one two", '{"a": 1}', "é", "two\r", "123"]


def answer(tool: Any, command: dict[str, Any]) -> str:
    try:
        return str(tool.call(command))
    except ToolError as e:
        return f"error: {e}"


def random_command() -> dict[str, Any]:
    def path() -> str:
        return "/".join(["/memories", *random.choices(PATHS, k=random.random() < 0.95)])

    def text() -> str:
        return "\n".join(random.choices(LINES, k=random.randrange(6)))

    match random.choice(["view", "view", "create", "create", "str_replace", "insert", "delete", "rename"]):
        case "view":
            ranges = [None, None, [1, 2], [2, -1], [3, 9], [0, 1], [5, 2], [1]]
            return {"command": "view", "path": path(), "view_range": random.choice(ranges)}
        case "create":
            return {"command": "create", "path": path(), "file_text": text()}
        case "str_replace":
            old = random.choice(["one", "two", "o", "one\ntwo", "123", ""])
            return {"command": "str_replace", "path": path(), "old_str": old, "new_str": text()}
        case "insert":
            return {"command": "insert", "path": path(), "insert_line": random.randrange(-1, 6), "insert_text": text()}
        case "delete":
            return {"command": "delete", "path": path()}
        case _:
            return {"command": "rename", "old_path": path(), "new_path": path()}


def comparable(text: str) -> str:
    """Without what a file system has for the size of a directory."""
    if not text.startswith("Here're the files and directories"):
        return text
    header, first, *lines = text.split("\n")
    return "\n".join(
        [header, first.split("\t")[1], *[re.sub(r"^[0-9.]+[BKMG](\t.*/)$", r"-\1", line) for line in lines]]
    )


def remove_empty(root: Path) -> None:
    """A memory has no empty directories."""
    for directory in sorted((p for p in root.rglob("*") if p.is_dir()), reverse=True):
        if not any(directory.iterdir()):
            directory.rmdir()


def test_it_answers_as_the_tool_for_local_files(memory: Memory, tmp_path: Path) -> None:
    random.seed(20250818)
    local, tool = BetaLocalFilesystemMemoryTool(str(tmp_path)), MemoryTool(memory)
    for _ in range(400):
        command = random_command()
        got = answer(tool, command)
        try:
            want = answer(local, command)
        except OSError:  # a file as a directory, a directory into itself: an errno there, a sentence here
            assert got.startswith("error: ")
        else:
            assert comparable(got) == comparable(want), command
        remove_empty(tmp_path / "memories")
    assert tool.clear_all_memory() == local.clear_all_memory() == "All memory cleared"
    assert memory.list_keys() == []


def test_a_directory_as_documented(memory: Memory) -> None:
    tool = MemoryTool(memory)
    for path, size in {"notes.md": 1536, "dir/a": 10, "dir/sub/deep": 2048, "dir/.hidden": 5, "b": 0}.items():
        answer(tool, {"command": "create", "path": f"/memories/{path}", "file_text": "x" * size})
    header = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:"
    assert answer(tool, {"command": "view", "path": "/memories"}).split("\n") == [
        header,
        "3.5K\t/memories",
        "0B\t/memories/b",
        "2.0K\t/memories/dir/",
        "10B\t/memories/dir/a",
        "2K\t/memories/dir/sub/",
        "1.5K\t/memories/notes.md",
    ]
    assert answer(tool, {"command": "view", "path": "/memories/"}).startswith(header)


@pytest.mark.parametrize(
    "path",
    [
        *[
            "/etc/passwd",
            "/memoriesx",
            "memories/a",
            "",
            "/memories/..",
            "/memories/../etc/passwd",
            "/memories/a/../../x",
        ],
        *["/memories/%2e%2e/x", "/memories/%2e%2e%2fx", "/memories/..\\x", "/memories/..%5cx"],
        *["/memories/a\0b", "/memories/a%00"],
    ],
)
def test_a_path_that_leaves_memories_is_refused(daemon: Server, namespace: str, path: str) -> None:
    with Memory(namespace, daemon.url) as memory:
        tool = MemoryTool(memory)
        for command in (
            {"command": "view", "path": path},
            {"command": "create", "path": path, "file_text": "x"},
            {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
            {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
            {"command": "delete", "path": path},
            {"command": "rename", "old_path": path, "new_path": "/memories/b"},
            {"command": "rename", "old_path": "/memories/b", "new_path": path},
        ):
            with pytest.raises(ToolError, match=r"Path (must start with|.* would escape) /memories"):
                tool.call(command)
        assert memory.list_keys() == []


def test_a_file_longer_than_a_value(memory: Memory) -> None:
    tool = MemoryTool(memory)
    text = "\n".join(f"line {number} " + "é\"'" * 20 for number in range(5_000))
    assert "created" in answer(tool, {"command": "create", "path": "/memories/long", "file_text": text})
    assert answer(tool, {"command": "view", "path": "/memories/long"}).count("\n") == 5_000
    change = {"command": "str_replace", "path": "/memories/long", "old_str": "line 4999 ", "new_str": "the last "}
    assert "  5000\tthe last é" in answer(tool, change)
    answer(tool, {"command": "rename", "old_path": "/memories/long", "new_path": "/memories/moved"})
    assert answer(tool, {"command": "view", "path": "/memories/moved", "view_range": [1, 1]}).endswith("'")
    size = len(text.encode()) - 1
    assert f"{size / 1024:.1f}K\t/memories/moved" in answer(tool, {"command": "view", "path": "/memories"})
    answer(tool, {"command": "delete", "path": "/memories/moved"})
    assert memory.list_keys() == []


def test_an_edit_that_is_made_is_no_error(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full journal may refuse to delete the parts of before."""

    def refuse(*_: Any, **__: Any) -> bool:
        raise Refused(507, "the disk is full")

    tool = MemoryTool(memory)
    long = "x" * 200_000
    answer(tool, {"command": "create", "path": "/memories/long", "file_text": "short" + long})
    monkeypatch.setattr(Memory, "delete", refuse)
    edited = answer(tool, {"command": "str_replace", "path": "/memories/long", "old_str": long, "new_str": "er"})
    assert edited.startswith("The memory file has been edited")
    assert memory.get("/memories/long") == "shorter"


def test_a_delete_that_leaves_something_is_an_error(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    delete = Memory.delete

    def refuse(self: Memory, key: str, *rest: Any, **named: Any) -> bool:
        if key != "/memories/long":
            raise Refused(507, "the disk is full")
        return delete(self, key, *rest, **named)

    tool = MemoryTool(memory)
    answer(tool, {"command": "create", "path": "/memories/long", "file_text": "x" * 200_000})
    monkeypatch.setattr(Memory, "delete", refuse)
    with pytest.raises((ToolError, Refused), match="the disk is full"):
        tool.call({"command": "delete", "path": "/memories/long"})


def test_any_name_and_any_text(memory: Memory) -> None:
    tool = MemoryTool(memory)
    path = "/memories/" + "/".join(["a long name: é " * 10] * 3)
    for text in (
        '{"looks": "like JSON"}',
        "5",
        "null",
        "",
        "\n",
        " x ",
        '"quoted"',
        '{"botwired":"parts","parts":["x"]}',
    ):
        answer(tool, {"command": "create", "path": path, "file_text": text})
        assert answer(tool, {"command": "view", "path": path}).split("with line numbers:\n")[1] == "\n".join(
            f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), 1)
        )
        answer(tool, {"command": "delete", "path": path})
    assert memory.list_keys() == []


def test_what_another_client_has_written(memory: Memory) -> None:
    memory.set("/memories/settings.json", {"a": 1})
    assert answer(MemoryTool(memory), {"command": "view", "path": "/memories/settings.json"}).endswith(
        '     1\t{"a":1}'
    )


def test_concurrent_edits_lose_nothing(daemon: Server, namespace: str) -> None:
    with Memory(namespace, daemon.url) as memory:
        answer(MemoryTool(memory), {"command": "create", "path": "/memories/f", "file_text": ""})

    def work(writer: int) -> None:
        with Memory(namespace, daemon.url) as memory:
            tool = MemoryTool(memory)
            for number in range(15):
                line = f"{writer}-{number}"
                answer(tool, {"command": "insert", "path": "/memories/f", "insert_line": 0, "insert_text": line})

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    with Memory(namespace, daemon.url) as memory:
        lines = str(memory.get("/memories/f")).split()
    assert sorted(lines) == sorted(f"{writer}-{number}" for writer in range(6) for number in range(15))


def test_of_two_that_create_one_file_one_is_told(daemon: Server, namespace: str) -> None:
    def create(number: int) -> str:
        with Memory(namespace, daemon.url) as memory:
            return answer(MemoryTool(memory), {"command": "create", "path": "/memories/f", "file_text": str(number)})

    with ThreadPoolExecutor(4) as pool:
        answers = sorted(pool.map(create, range(4)))
    assert answers == ["File created successfully at: /memories/f"] + ["error: File /memories/f already exists"] * 3


def overtake(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Has somebody else act just before the next delete."""
    delete = Memory.delete

    def late(self: Memory, key: str, **options: Any) -> bool:
        monkeypatch.undo()
        act()
        return delete(self, key, **options)

    monkeypatch.setattr(Memory, "delete", late)


def test_a_file_that_changes_while_it_is_renamed(
    daemon: Server, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(namespace, daemon.url) as memory:
        tool = MemoryTool(memory)
        answer(tool, {"command": "create", "path": "/memories/old", "file_text": "1"})
        rename = {"command": "rename", "old_path": "/memories/old", "new_path": "/memories/new"}
        overtake(monkeypatch, lambda: memory.set("/memories/old", "changed"))
        assert answer(tool, rename) == "Successfully renamed /memories/old to /memories/new"
        assert (memory.get("/memories/new"), memory.list_keys()) == ("changed", ["/memories/new"])

        rename = {"command": "rename", "old_path": "/memories/new", "new_path": "/memories/gone"}
        overtake(monkeypatch, lambda: memory.delete("/memories/new"))
        assert answer(tool, rename) == "error: The path /memories/new does not exist"
        assert memory.list_keys() == []


def test_more_files_than_botwire_lists(daemon: Server, namespace: str) -> None:
    with Memory(namespace, daemon.url) as memory:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: memory.set(f"/memories/{number:04}", "x"), range(1_010)))
        lines = answer(MemoryTool(memory), {"command": "view", "path": "/memories"}).split("\n")
        assert lines[1:3] == ["1010B\t/memories", "1B\t/memories/0000"]
        assert len(lines) == 2 + 1_010


async def test_the_async_tool(async_memory: AsyncMemory) -> None:
    tool = AsyncMemoryTool(async_memory)
    await tool.call({"command": "create", "path": "/memories/dir/a", "file_text": "one\ntwo"})
    await asyncio.gather(
        *(
            tool.call({"command": "insert", "path": "/memories/dir/a", "insert_line": 2, "insert_text": "x"})
            for _ in "1"
        )
    )
    change = {"command": "str_replace", "path": "/memories/dir/a", "old_str": "two", "new_str": "2"}
    assert str(await tool.call(change)).endswith("     1\tone\n     2\t2\n     3\tx\n     4\t")
    await tool.call({"command": "rename", "old_path": "/memories/dir", "new_path": "/memories/other"})
    assert str(await tool.call({"command": "view", "path": "/memories"})).endswith("8B\t/memories/other/a")
    with pytest.raises(ToolError, match="The path /memories/dir does not exist"):
        await tool.call({"command": "delete", "path": "/memories/dir"})
    await tool.call({"command": "delete", "path": "/memories/other"})
    await tool.call({"command": "create", "path": "/memories/b", "file_text": "b"})
    assert await tool.clear_all_memory() == "All memory cleared"
    assert await async_memory.list_keys() == []


def test_a_conversation_with_the_tool_runner(memory: Memory) -> None:
    """Anthropic's own runner, and a model that views, creates and then reads a file that is not there."""
    commands = [
        {"command": "view", "path": "/memories"},
        {"command": "create", "path": "/memories/user.md", "file_text": "likes tea"},
        {"command": "view", "path": "/memories/nothing"},
    ]
    results: list[dict[str, Any]] = []

    def model(request: httpx2.Request) -> httpx2.Response:
        messages = json.loads(request.content)["messages"]
        if isinstance(messages[-1]["content"], list):
            results.extend(messages[-1]["content"])
        content: dict[str, Any] = {"type": "text", "text": "done"}
        if len(results) < len(commands):
            content = {
                "type": "tool_use",
                "id": f"toolu_{len(results)}",
                "name": "memory",
                "input": commands[len(results)],
            }
        body = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [content],
            "stop_reason": content["type"].replace("text", "end_turn"),
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        return httpx2.Response(200, json=body)

    client = Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(model)))
    runner = client.beta.messages.tool_runner(
        model="claude",
        max_tokens=100,
        tools=[MemoryTool(memory)],
        messages=[{"role": "user", "content": "I like tea."}],
    )
    assert runner.until_done().stop_reason == "end_turn"
    assert memory.get("/memories/user.md") == "likes tea"
    assert "File created successfully at: /memories/user.md" in str(results[1]["content"])
    assert results[2]["is_error"] is True
    client.close()
