"""The Python blocks of docs/frameworks.md do what the page says."""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import Server

PAGE = Path(__file__).resolve().parents[4] / "docs" / "frameworks.md"
SECTIONS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
BLOCKS = {title: re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for title, text in SECTIONS}


# CrewAI is in an environment of its own, and the others are not there.
TITLES = [title for title in BLOCKS if (title == "CrewAI") == bool(find_spec("crewai"))]


def test_each_framework_has_an_example() -> None:
    assert {title for title, blocks in BLOCKS.items() if not blocks} == set()


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # an example closes nothing
def test_example(title: str, daemon: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTWIRE_URL", daemon.url)
    for block in BLOCKS[title]:
        code = compile(block, f"docs/frameworks.md, {title}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, {"__name__": title})
        if inspect.iscoroutine(result):
            asyncio.run(result)
    del result
    gc.collect()  # here, where what is not closed is no failure
