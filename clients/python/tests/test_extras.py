"""An adapter without its framework says how to get it. The frameworks are not where these tests run."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

EXTRAS = re.findall(
    r"^([a-z-]+) = \[.*\]$",
    (Path(__file__).parents[1] / "pyproject.toml")
    .read_text()
    .split("[project.optional-dependencies]")[1]
    .split("\n[")[0],
    re.MULTILINE,
)


def test_there_are_extras() -> None:
    assert {"claude", "langchain", "langgraph"} <= set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_adapter_without_its_framework_names_the_extra(extra: str) -> None:
    with pytest.raises(ImportError, match=re.escape(f"pip install 'botwired[{extra}]'")):
        importlib.import_module("botwired." + extra.replace("-", "_"))
