"""Values come back exactly as they were set."""

from __future__ import annotations

import json
import math
from enum import Enum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from texts import texts

from botwired._values import decode, encode


def values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    """Return the strategy for JSON values with such texts."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
    return st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


VALUES = values(texts())
LOOK_LIKE_JSON = st.builds(json.dumps, VALUES) | st.builds(encode, VALUES)


def exactly(one: object, other: object) -> bool:
    """Compare with types: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return repr(one) == repr(other)


@given(VALUES | LOOK_LIKE_JSON | st.builds(json.dumps, LOOK_LIKE_JSON))
@example("5")
@example("[1]")
@example('"[1]"')
@example('"\\"[1]\\""')
@example("null")
@example("[NaN]")
@example("1e5")
@example("-0")
@example(-0.0)
@example("9" * 5000)
@example("[" * 100_000)
@example("\ud800")
@example('"\ud800"')
@example('"\\ud800"')
@example("[\ud800]")
@example({"\udfff": ["\ud800", "\\ud800"]})
def test_a_value_comes_back(value: object) -> None:
    assert exactly(decode(encode(value)), value)


@given(st.text() | LOOK_LIKE_JSON)
def test_a_foreign_scalar_loses_nothing(text: str) -> None:
    value = decode(text)
    assert isinstance(value, list | dict) or encode(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Ada", "Ada"), ("", ""), ("5", 5), ("-1.5", -1.5), ("true", True), ("null", None), ("[1, 2]", [1, 2]),
        ('{"a": {"b": []}}', {"a": {"b": []}}), ("1.10", "1.10"), ("007", "007"), ("1e5", "1e5"), ("+1", "+1"),
        ("NaN", "NaN"), ("True", "True"), (" 5", " 5"), ('"quoted"', '"quoted"'), ("[broken", "[broken"),
        ('"5"', "5"), ("{not json}", "{not json}"),
    ],
)  # fmt: skip
def test_texts_of_other_clients(text: str, value: object) -> None:
    assert exactly(decode(text), value)


@given(VALUES)
def test_botwire_takes_what_is_stored(value: object) -> None:
    encode(value).encode()


def test_two_halves_side_by_side_are_the_character() -> None:
    assert decode(encode("\ud83d\ude00")) == "\U0001f600"
    assert encode("caf\udc97 é") == '"caf\\udc97 é"'


def test_a_str_is_stored_as_it_is() -> None:
    assert encode("Ada says: é, 長") == "Ada says: é, 長"
    assert encode({"name": "é", "n": [1, None]}) == '{"name":"é","n":[1,null]}'


class Colour(str, Enum):
    RED = "red"
    FIVE = "5"


@pytest.mark.parametrize("colour", Colour)
def test_a_member_of_an_enum_is_its_value(colour: Colour) -> None:
    assert encode(colour) == encode(colour.value)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (b"x", TypeError, "bytes are not: decode them"),
        ({1, 2}, TypeError, "a value must be JSON"),
        (object(), TypeError, "a value must be JSON"),
        ({"a": [{1: "x"}]}, TypeError, "keys must be str: 1 would read back as a str"),
        (math.nan, ValueError, "a value must be JSON"),
        ([math.inf], ValueError, "a value must be JSON"),
    ],
)
def test_refusals_in_words(value: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        encode(value)


def test_a_value_that_contains_itself() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueError, match="a value must be JSON"):
        encode(value)


def test_a_tuple_reads_as_a_list() -> None:
    assert decode(encode((1, (2,)))) == [1, [2]]
