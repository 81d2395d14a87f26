"""Where the binary of the wheel is."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path


def find_binary() -> str:
    """Return the path of the botwired binary that was installed with this package.

    FileNotFoundError says where it was looked for: a package that was installed from its sources has none.
    """
    name = "botwired.exe" if sys.platform == "win32" else "botwired"
    places = [Path(folder) / name for folder in _folders()]
    for place in places:
        if place.is_file():
            return str(place)
    tried = ", ".join(str(place) for place in places)
    raise FileNotFoundError(
        f"there is no botwired binary at {tried}: install the package from its wheel; "
        "in a clone, `make build` makes bin/botwired"
    )


def _folders() -> list[str]:
    """Return the folders of scripts: of this environment, of pip install --user, --prefix and --target."""
    package = Path(__file__).resolve().parent
    user_scheme = sysconfig.get_preferred_scheme("user")
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", user_scheme), str(package.parent / scripts)]
    if package.parent.name in ("site-packages", "dist-packages"):
        folders.append(str(package.parents[3] / scripts))
    return list(dict.fromkeys(folders))


def run() -> None:
    """Become the binary, with this process's arguments."""
    binary = find_binary()
    arguments = [binary, *sys.argv[1:]]
    if sys.platform == "win32":
        sys.exit(subprocess.call(arguments))
    os.execv(binary, arguments)
