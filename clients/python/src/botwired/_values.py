r"""Values and the texts that BotWire stores for them.

BotWire stores texts. `encode` and `decode` turn any JSON value into one and back:

- A list or a dict is compact JSON. Any text that begins with ``[`` or ``{`` and is JSON reads as one, as it does for
  BotWire's own package.
- A number, True, False or None is JSON, too. A text reads as one only if `encode` would have written exactly this text:
  ``5`` reads as 5, while ``1.10`` and ``007`` stay texts, so that nothing of a foreign text is lost.
- A str is stored as it is, unless it would read as something else: then it is stored as a JSON string.
- A lone surrogate, half of a character beyond U+FFFF, is no Unicode, and BotWire refuses it. JSON has an escape for it:
  a str that contains one is stored as a JSON string with ``\ud83d``.

``decode(encode(value)) == value`` holds for every value that `encode` takes, types included, except that a tuple reads
as a list, and that the two halves of a character, side by side, read as the character.
"""

from __future__ import annotations

import json
import re
from typing import Any

_CONTAINERS = ("[", "{")

_BYTES = "bytes are not: decode them, or store them in base64"
_REFUSED = {
    "bytes": _BYTES,
    "bytearray": _BYTES,
    "datetime": "a date is not: store its isoformat()",
    "date": "a date is not: store its isoformat()",
    "set": "a set is not: store the list of it",
}
"""What to do with values that people try, by the type that json names: it may be anywhere in the value."""

_MOST_LEVELS = 500
"""json counts the calls that it is within, too: a caller hundreds of calls deep would read a deeper value as a str."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""A lone one: Python's str has no others."""


def encode(value: Any) -> str:
    """Return the text to store for a value.

    TypeError says that JSON has no such value (bytes, a set, a dict with keys that are not str), and ValueError that it
    cannot be stored (NaN, an infinity, a structure that contains itself).
    """
    if not isinstance(value, str):
        return _to_json(value)
    text = joined(str.__str__(value))  # of an Enum, str() would take the name
    return text if _is_stored_as_it_is(text) else _to_json(text)


def joined(text: str) -> str:
    """Return a text in which two halves of a character, side by side, are the character."""
    if not SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


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
        if isinstance(value, str) and _is_stored_as_it_is(value):
            return text
        return value if _to_json(value) == text else text
    except (ValueError, RecursionError):
        return text


def _is_stored_as_it_is(text: str) -> bool:
    """Report whether encode stores a str without quotation marks: it is Unicode, and reads as nothing else."""
    decoded = decode(text)
    return isinstance(decoded, str) and decoded == text and not SURROGATE.search(text)


def _to_json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except TypeError as e:
        raise TypeError(f"a value must be JSON: str, int, float, bool, None, list or dict ({_reason(e)})") from None
    except ValueError as e:
        raise ValueError(f"a value must be JSON: {e}") from None
    except RecursionError:
        raise ValueError("a value must be JSON, and this one is nested too deeply") from None
    _check(value)
    return SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", joined(text))


def _reason(error: TypeError) -> str:
    for kind, words in _REFUSED.items():
        if str(error).startswith(f"Object of type {kind} "):
            return words
    return str(error)


def _check(value: Any) -> None:
    """Refuse keys that are not str, which json would turn into str, and a value that not everybody could read."""
    todo = [(value, 0)]
    while todo:
        value, level = todo.pop()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"a dict's keys must be str: {key!r} would read back as a str")
            within = list(value.values())
        elif isinstance(value, list | tuple):
            within = list(value)
        else:
            continue
        if level == _MOST_LEVELS:
            raise ValueError(f"a value must be JSON, and this one is nested more than {_MOST_LEVELS} levels deep")
        todo += [(each, level + 1) for each in within]
