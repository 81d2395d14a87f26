"""Keys that are paths of any texts: labels with slashes between them."""

from __future__ import annotations

from collections.abc import Iterable


def join(labels: Iterable[str]) -> str:
    """Return the key of a path. No two paths have one key, and `join(a) + "/"` begins every key below `a`."""
    return "/".join(label.replace("~", "~0").replace("/", "~1") for label in labels)


def split(key: str) -> list[str]:
    """Return the labels of which `join` has made the key."""
    return [label.replace("~1", "/").replace("~0", "~") for label in key.split("/")]
