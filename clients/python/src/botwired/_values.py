"""Values and the texts that BotWire stores for them.

BotWire stores texts. `encode` and `decode` turn any JSON value into one and back:

- A list or a dict is compact JSON. Any text that begins with ``[`` or ``{`` and is JSON reads as one, as it does for
  BotWire's own package.
- A number, True, False or None is JSON, too. A text reads as one only if `encode` would have written exactly this text:
  ``5`` reads as 5, while ``1.10`` and ``007`` stay texts, so that nothing of a foreign text is lost.
- A str is stored as it is, unless it would read as something else: then it is stored as a JSON string.

``decode(encode(value)) == value`` holds for every value that `encode` takes, types included, except that a tuple reads
as a list.
"""

from __future__ import annotations

import json
from typing import Any

_CONTAINERS = ("[", "{")


def encode(value: Any) -> str:
    """Return the text to store for a value.

    TypeError says that JSON has no such value (bytes, a set, a dict with keys that are not str), and ValueError that it
    cannot be stored (NaN, an infinity, a lone surrogate, a structure that contains itself).
    """
    text = str.__str__(value) if isinstance(value, str) else _to_json(value)  # of an Enum, str() would take the name
    if isinstance(value, str) and not _is_same(decode(text), text):
        text = _to_json(text)
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise ValueError(
            f"a lone surrogate ({text[e.start]!a}) is no Unicode character, and cannot be stored"
        ) from None
    return text


def decode(text: str) -> Any:
    """Return the value that a stored text stands for."""
    if text.startswith(_CONTAINERS):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return _decode_scalar(text)


def _decode_scalar(text: str) -> Any:
    if not text or text[0] not in '"-0123456789tfn':
        return text
    try:
        value = json.loads(text)
        if isinstance(value, str) and _is_same(decode(value), value):
            return text  # encode stores such a str without quotation marks
        return value if _to_json(value) == text else text
    except (ValueError, RecursionError):
        return text


def _is_same(decoded: Any, text: str) -> bool:
    return isinstance(decoded, str) and decoded == text


def _to_json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except TypeError as e:
        raise TypeError(
            f"a value must be JSON: str, int, float, bool, None, list or dict ({_reason(value, e)})"
        ) from None
    except ValueError as e:
        raise ValueError(f"a value must be JSON: {e}") from None
    except RecursionError:
        raise ValueError("a value must be JSON, and this one is nested too deeply") from None
    _check_keys(value)
    return text


def _reason(value: Any, error: TypeError) -> str:
    if isinstance(value, bytes | bytearray):
        return "bytes are not: decode them, or store them in base64"
    return str(error)


def _check_keys(value: Any) -> None:
    """Refuse keys that are not str: json turns them into str, and they would not read back as they were."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"a dict's keys must be str: {key!r} would read back as a str")
            todo.extend(value.values())
        elif isinstance(value, list | tuple):
            todo.extend(value)
