"""docs/sandboxes.md: the guide that runs today, the names of E2B's packages in it, and the life of a sandbox."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botwire
import e2b
import e2b_code_interpreter as interpreter
import pytest
from servers import BINARY, ROOT

from botwired import Memory

if TYPE_CHECKING:
    from servers import Server

PAGE = (ROOT / "docs" / "sandboxes.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "e2b"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LIVES = re.findall(r"^```text\n(create .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TABLE = re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE.partition("| the guide | today |")[2], re.MULTILINE)
# Names in the page, and the classes of what they stand for.
CLASSES = {
    "Sandbox": interpreter.Sandbox,
    "sandbox": interpreter.Sandbox,
    "result": interpreter.Execution,
    "agent_memory": Memory,
}


def member(node: ast.expr) -> Any:
    """Return what a name or an attribute stands for, as its class has it; None if it is none of E2B's or botwired's."""
    if isinstance(node, ast.Name):
        return CLASSES.get(node.id)
    if not isinstance(node, ast.Attribute) or (owner := member(node.value)) is None:
        return None
    if isinstance(owner, property):
        owner = typing.get_type_hints(owner.fget)["return"]
    return getattr(owner, node.attr)


def check(code: str) -> set[str]:
    """Check that the members and the arguments in a code exist, and return the members."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and member(node):
            found.add(ast.unparse(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (called := member(node.func)):
            signature = inspect.signature(called)
            caller = [None] if "self" in signature.parameters else []
            signature.bind(*caller, *node.args, **{k.arg: k.value for k in node.keywords if k.arg})
    return found


def test_each_name_of_the_page_exists() -> None:
    spans = [span for _, today in TABLE for span in re.findall("`([^`]+)`", today) if "(" in span]
    found = set[str]().union(*(check(code) for code in [*BLOCKS, *spans]))
    assert found == {
        "Sandbox.create", "Sandbox.connect", "sandbox.run_code", "sandbox.commands", "sandbox.commands.run",
        "sandbox.pause", "sandbox.fork", "sandbox.kill", "sandbox.sandbox_id", "result.text",
        "agent_memory.get", "agent_memory.set", "agent_memory.list_keys",
    }  # fmt: skip


@pytest.mark.parametrize(
    "code", ["sandbox.notebook", "sandbox.run_code()", "sandbox.commands.run()", "sandbox.commands.x"]
)
def test_what_does_not_exist_is_seen(code: str) -> None:
    with pytest.raises((AttributeError, TypeError)):
        check(code)


def test_what_the_guide_says_is_gone() -> None:
    assert [old for old, _ in TABLE] == [
        "import e2b", "e2b.CodeInterpreter()", "sandbox.notebook.exec_cell(code)", "result.text",
        "from botwire import Memory", "agent_memory.list_keys()", "time.time()",
    ]  # fmt: skip
    assert not hasattr(e2b, "CodeInterpreter")
    assert not hasattr(e2b.Sandbox, "run_code")
    assert not hasattr(interpreter.Sandbox, "notebook")
    with pytest.raises(TypeError):
        interpreter.Sandbox()
    assert not hasattr(botwire.Memory, "list_keys")


def test_the_guide_runs(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(interpreter.Sandbox, "create", importlib.import_module("local_sandbox").LocalSandbox)
    monkeypatch.setenv("BOTWIRE_URL", server.url)
    with Memory("user-session-123") as memory:
        memory.clear()
    for _ in range(2):
        names: dict[str, Any] = {}
        exec(compile(BLOCKS[0], "sandboxes.md", "exec"), names)
        names["agent_memory"].close()
    keys = "Stored keys: ['user_context', 'last_calculation']\n"
    assert capsys.readouterr().out == f"{keys}Remembering: 42\n{keys}"


@pytest.mark.parametrize(("place", "told"), [*zip(["inside", "beside"], LIVES, strict=True)])
def test_a_life_tells_what_the_page_says(place: str, told: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BOTWIRE") and "PROXY" not in k.upper()}
    environment["PATH"] = f"{Path(BINARY).parent}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = str(ROOT / "clients" / "python" / "src")
    program = [sys.executable, str(EXAMPLE / "life.py"), place]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
