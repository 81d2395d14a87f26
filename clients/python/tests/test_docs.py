"""The Python blocks of docs/python.md and of the package's README do what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from servers import ROOT, daemon

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A daemon at the address that the environment names."""
    server = daemon(tmp_path).start()
    monkeypatch.setenv("BOTWIRE_URL", server.url)
    yield server.url
    server.stop()


@pytest.mark.parametrize("page", ["docs/python.md", "clients/python/README.md"])
def test_python_blocks(page: str, url: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, Any] = {"__name__": page}
    for block in blocks:
        exec(compile(block.replace("http://127.0.0.1:2689", url), page, "exec"), names)
    names["memory"].close()
