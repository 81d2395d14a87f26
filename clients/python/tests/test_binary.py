"""The binary of a wheel is found where installers put it, and runs as this process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from servers import BINARY, ROOT

from botwired import find_binary

SOURCES = ROOT / "clients" / "python" / "src"


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this environment's scripts, which is empty."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name, scheme="": str(tmp_path / f"{name}{scheme}"))
    folder = tmp_path / "scripts"
    folder.mkdir()
    return folder


def test_no_binary(scripts: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"there is no botwired binary at .*scripts.*: install the package from"
    ):
        find_binary()


def test_find_binary(scripts: Path) -> None:
    name = "botwired.exe" if sys.platform == "win32" else "botwired"
    (scripts / name).touch()
    assert find_binary() == str(scripts / name)


def test_a_target_folder(tmp_path: Path) -> None:
    target = tmp_path / "target"
    shutil.copytree(SOURCES / "botwired", target / "botwired")
    (target / "bin").mkdir()
    shutil.copy(BINARY, target / "bin" / "botwired")
    environment = {**os.environ, "PYTHONPATH": str(target)}
    for arguments in (["version"], ["no-such-command"]):
        direct = subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=False)
        command = [sys.executable, "-m", "botwired", *arguments]
        module = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (module.returncode, module.stdout, module.stderr) == (direct.returncode, direct.stdout, direct.stderr)
