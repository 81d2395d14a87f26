"""BotWire's own package and this one read each other's entries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import botwire
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_values import exactly, values

from botwired import Memory
from botwired._values import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import Server


@pytest.fixture(scope="module")
def both(server: Server) -> Iterator[tuple[Any, Memory]]:
    with Memory("both", base_url=server.url) as ours:
        theirs = botwire.Memory("both", base_url=server.url)
        yield theirs, ours
        theirs._client.close()


quickly = settings(max_examples=60)
TEXTS = st.text()  # Unicode: BotWire's package cannot send a lone surrogate
VALUES = values(TEXTS)


@given(value=VALUES | st.builds(json.dumps, VALUES))
@example(value="[1, 2]")
@example(value="[broken")
@example(value=" 5")
@example(value='"quoted"')
@example(value="1.10")
@example(value='"0"')
@quickly
def test_what_botwire_has_written(both: tuple[Any, Memory], value: Any) -> None:
    theirs, ours = both
    theirs.set("k", value)
    read, expected = ours.get("k"), theirs.get("k")
    if isinstance(read, bool | int | float | None):
        # BotWire's package reads the text of a number, True, False or None. Here it is what the text says.
        assert exactly(read, value if not isinstance(value, str) else json.loads(expected))
    else:
        assert exactly(read, expected) or exactly(read, value) or (isinstance(read, str) and encode(read) == expected)


@given(value=TEXTS | st.lists(VALUES) | st.dictionaries(TEXTS, VALUES))
@quickly
def test_what_botwire_reads(both: tuple[Any, Memory], value: Any) -> None:
    theirs, ours = both
    ours.set("k", value)
    text = ours.entry("k").text  # type: ignore[union-attr]
    assert exactly(theirs.get("k"), value) or text == json.dumps(value, ensure_ascii=False)


def test_a_key_of_botwires_alphabet_is_the_same_entry(both: tuple[Any, Memory]) -> None:
    theirs, ours = both
    theirs.set("user_name.v1-x", "Ada")
    assert ours.get("user_name.v1-x") == "Ada"
    ours.set("user_name.v1-x", "Bea")
    assert theirs.get("user_name.v1-x") == "Bea"
    assert theirs.delete("user_name.v1-x")
    assert "user_name.v1-x" not in ours
