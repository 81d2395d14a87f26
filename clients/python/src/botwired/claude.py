"""Claude's memory tool, kept in a memory: ``pip install 'botwired[claude]'``.

    from anthropic import Anthropic
    from botwired import Memory
    from botwired.claude import MemoryTool

    client, memory = Anthropic(), Memory("my-agent")
    client.beta.messages.tool_runner(tools=[MemoryTool(memory)], ...)

Each file is an entry whose key is its path, such as ``/memories/notes.md``, and whose value is its text. A directory is
what paths have in common, so there is none without a file in it. A file may be longer than a value: it is kept in parts
then. The tool's answers and errors are those of Anthropic's own tool for local files.

Any number of processes may use one namespace at once: each change is made to the file as it is then. A directory is
renamed and deleted file by file. A plain BotWire has no conditional writes, so that of two processes' changes to one
file at the same moment one may be lost there, and lists no more than 1,000 keys.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import unquote

from botwired import AsyncMemory, Memory
from botwired._parts import Document, Documents, to_json
from botwired._port import Blocking, Native, Port, complete, with_state
from botwired.errors import Conflict

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand as Create,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818DeleteCommand as Delete,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818InsertCommand as Insert,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818RenameCommand as Rename,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818StrReplaceCommand as StrReplace,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818ViewCommand as View,
    )
    from typing_extensions import override
except ImportError as e:
    raise ImportError("botwired.claude needs anthropic: pip install 'botwired[claude]'") from e

__all__ = ["AsyncMemoryTool", "MemoryTool"]

ROOT = "/memories"
MAX_LINES = 999_999
LINE_NUMBER_WIDTH = 6
LEVELS = 2
AROUND = 2  # lines that an edit shows before and after its first line


class _Files:
    """The commands of the tool."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._documents = Documents(port, lambda name: f"/parts/{name}")

    # --- commands

    async def view(self, command: View) -> str:
        path = _resolve(command.path)
        document = None if path == ROOT else await self._documents.load(path)
        if document is not None:
            return _numbered(command, _text(document))
        paths = await self._below(path)
        if not paths and path != ROOT:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        documents = await self._documents.load_all(paths)
        sizes = {
            name: len(_text(file).encode(errors="surrogatepass"))
            for name, file in zip(paths, documents, strict=True)
            if file
        }
        lines = [f"{_size(sum(sizes.values()))}\t{path}"]
        lines += [f"{_size(size)}\t{path}/{name}" for name, size in _listing(path, sizes)]
        header = f"Here're the files and directories up to {LEVELS} levels deep in {path}, excluding hidden items:"
        return "\n".join([header, *lines])

    async def create(self, command: Create) -> str:
        path = _resolve(command.path)
        for parent in _parents(path):
            if await self._documents.load(parent):
                raise ToolError(f"The path {parent} is a file, and cannot have {command.path} in it.")
        if path == ROOT or await self._documents.load(path) or await self._below(path):
            raise ToolError(f"File {command.path} already exists")
        try:
            await self._documents.store(path, command.file_text, None)
        except Conflict as e:
            raise ToolError(f"File {command.path} already exists") from e
        return f"File created successfully at: {command.path}"

    async def str_replace(self, command: StrReplace) -> str:
        text = await self._edit(command.path, lambda text: _replaced(command, text))
        return "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" + text

    async def insert(self, command: Insert) -> str:
        await self._edit(command.path, lambda text: (_inserted(command, text), ""))
        return f"The file {command.path} has been edited."

    async def delete(self, command: Delete) -> str:
        path = _resolve(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        if not (await self._documents.remove(path) or await self._delete_below(path)):
            raise ToolError(f"The path {command.path} does not exist")
        return f"Successfully deleted {command.path}"

    async def rename(self, command: Rename) -> str:
        old, new = _resolve(command.old_path), _resolve(command.new_path)
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        exists = ToolError(f"The destination {command.new_path} already exists")
        if new == ROOT or await self._documents.load(new) or await self._below(new):
            raise exists
        for parent in _parents(new):
            if parent == old or await self._documents.load(parent):
                raise ToolError(
                    f"Cannot rename {command.old_path} to {command.new_path}: {parent} is no directory then"
                )
        try:
            moved = await self._move(old, new)
            for path in await self._below(old):
                moved = await self._move(path, new + path.removeprefix(old)) or moved
        except Conflict as e:
            raise exists from e
        if not moved:
            raise ToolError(f"The path {command.old_path} does not exist")
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def clear_all_memory(self) -> str:
        await self._delete_below(ROOT)
        return "All memory cleared"

    # --- what they are made of

    async def _below(self, path: str) -> list[str]:
        return sorted(await self._port.list_keys(path + "/"))

    async def _edit(self, given: str, edit: Callable[[str], tuple[str, str]]) -> str:
        """Change a file as it is, and again if somebody else has changed it meanwhile."""
        path = _resolve(given)
        async with self._port.turn(path):
            while True:
                document = None if path == ROOT else await self._documents.load(path)
                if document is None:
                    if path == ROOT or await self._below(path):
                        raise ToolError(f"The path {given} is not a file.")
                    raise ToolError(f"The path {given} does not exist. Please provide a valid path.")
                text, answer = edit(_text(document))
                with suppress(Conflict):
                    await self._documents.store(path, text, document)
                    return answer

    async def _delete_below(self, path: str) -> bool:
        deleted = [await self._documents.remove(below) for below in await self._below(path)]
        return any(deleted)

    async def _move(self, old: str, new: str) -> bool:
        """Move one file, with what others write to it meanwhile. Conflict says that the new path is taken."""
        copy: Document | None = None
        while (document := await self._documents.load(old)) is not None:
            copy = await self._documents.store(new, document.value, copy)
            with suppress(Conflict):
                if await self._documents.delete(old, document):
                    return True
        if copy is not None:  # somebody has deleted the file meanwhile
            await self._documents.delete(new, copy)
        return False


# --- paths


def _resolve(given: str) -> str:
    """Return the path without dots and double slashes. One that leaves /memories, as it is or decoded, is refused."""
    for path in (given, unquote(given).replace("\\", "/")):
        if not (path == ROOT or path.startswith(ROOT + "/")):
            raise ToolError(f"Path must start with /memories, got: {given}")
        resolved = posixpath.normpath(path)
        if "\0" in path or not (resolved == ROOT or resolved.startswith(ROOT + "/")):
            raise ToolError(f"Path {given} would escape /memories directory")
    return posixpath.normpath(given)


def _parents(path: str) -> Iterator[str]:
    """Return the directories that a path is in, without /memories."""
    while (path := posixpath.dirname(path)) not in (ROOT, "/", ""):
        yield path


def _listing(directory: str, sizes: dict[str, int]) -> list[tuple[str, int]]:
    """Names and sizes of what is not hidden, a directory before what is in it."""
    shown: dict[tuple[str, ...], tuple[str, int]] = {}
    for path, size in sizes.items():
        names = path.removeprefix(directory + "/").split("/")
        for depth in range(1, min(len(names), LEVELS) + 1):
            if names[depth - 1].startswith("."):
                break
            name = "/".join(names[:depth]) + ("/" if depth < len(names) else "")
            shown[tuple(names[:depth])] = (name, shown.get(tuple(names[:depth]), ("", 0))[1] + size)
    return [shown[key] for key in sorted(shown)]


def _size(size: int) -> str:
    """Return the size as people write it: 512B, 1.5K, 4K."""
    units = ["B", "K", "M", "G"]
    unit = min(max(size.bit_length() - 1, 0) // 10, len(units) - 1)
    scaled = size / 1024**unit
    return f"{scaled:.0f}{units[unit]}" if scaled.is_integer() else f"{scaled:.1f}{units[unit]}"


# --- texts


def _text(document: Document) -> str:
    """Return the text of a file. A value that another client has written there shows as JSON."""
    return document.value if isinstance(document.value, str) else to_json(document.value)


def _lines(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>{LINE_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _numbered(command: View, text: str) -> str:
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
    first = 1
    if command.view_range and len(command.view_range) == 2:
        first, last = max(1, command.view_range[0]), command.view_range[1]
        lines = lines[first - 1 :] if last == -1 else lines[first - 1 : last]
    return f"Here's the content of {command.path} with line numbers:\n" + _lines(lines, first)


def _replaced(command: StrReplace, text: str) -> tuple[str, str]:
    """Return the new text, and the lines around the change."""
    old, count = command.old_str, text.count(command.old_str)
    if count == 0:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}.")
    at = text.find(old)
    if count > 1:
        numbers = []
        while at != -1:
            numbers.append(str(text.count("\n", 0, at) + 1))
            at = text.find(old, at + 1)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {', '.join(numbers)}. "
            "Please ensure it is unique"
        )
    replaced = text.replace(old, command.new_str)
    line = text.count("\n", 0, at)
    first = max(0, line - AROUND)
    return replaced, _lines(replaced.split("\n")[first : line + AROUND + 1], first + 1)


def _inserted(command: Insert, text: str) -> str:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 0 <= command.insert_line <= len(lines):
        raise ToolError(
            f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the range [0, {len(lines)}]."
        )
    lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
    inserted = "\n".join(lines)
    return inserted if inserted.endswith("\n") else inserted + "\n"


class MemoryTool(BetaAbstractMemoryTool):
    """Claude's memory tool on a Memory, for a client's tool runner. Threads may share it."""

    def __init__(self, memory: Memory, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory
        self._files = _Files(Blocking(memory))

    @override
    def view(self, command: View) -> str:
        return with_state(self._memory, complete(self._files.view(command)))

    @override
    def create(self, command: Create) -> str:
        return with_state(self._memory, complete(self._files.create(command)))

    @override
    def str_replace(self, command: StrReplace) -> str:
        return with_state(self._memory, complete(self._files.str_replace(command)))

    @override
    def insert(self, command: Insert) -> str:
        return with_state(self._memory, complete(self._files.insert(command)))

    @override
    def delete(self, command: Delete) -> str:
        return with_state(self._memory, complete(self._files.delete(command)))

    @override
    def rename(self, command: Rename) -> str:
        return with_state(self._memory, complete(self._files.rename(command)))

    @override
    def clear_all_memory(self) -> str:
        return with_state(self._memory, complete(self._files.clear_all_memory()))


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """Claude's memory tool on an AsyncMemory, for an async client's tool runner."""

    def __init__(self, memory: AsyncMemory, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory
        self._files = _Files(Native(memory))

    @override
    async def view(self, command: View) -> str:
        return with_state(self._memory, await self._files.view(command))

    @override
    async def create(self, command: Create) -> str:
        return with_state(self._memory, await self._files.create(command))

    @override
    async def str_replace(self, command: StrReplace) -> str:
        return with_state(self._memory, await self._files.str_replace(command))

    @override
    async def insert(self, command: Insert) -> str:
        return with_state(self._memory, await self._files.insert(command))

    @override
    async def delete(self, command: Delete) -> str:
        return with_state(self._memory, await self._files.delete(command))

    @override
    async def rename(self, command: Rename) -> str:
        return with_state(self._memory, await self._files.rename(command))

    @override
    async def clear_all_memory(self) -> str:
        return with_state(self._memory, await self._files.clear_all_memory())
