"""Values come back exactly as they were set."""

from __future__ import annotations

import datetime
import json
import math
import re
from enum import Enum
from pathlib import Path

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


TABLE = json.loads((Path(__file__).parents[2] / "values.json").read_text(encoding="utf-8"))
"""What the package for JavaScript is held to as well."""


@pytest.mark.parametrize("row", TABLE["kept"], ids=lambda row: ascii(row["text"]))
def test_values_that_both_packages_keep(row: dict[str, str]) -> None:
    value = json.loads(row["value"])
    assert encode(value) == row["text"]
    assert exactly(decode(row["text"]), value)


@pytest.mark.parametrize("row", TABLE["read"], ids=lambda row: ascii(row["text"]))
def test_texts_that_both_packages_read(row: dict[str, str]) -> None:
    value = json.loads(row["value"])
    assert decode(row["text"]) == value
    assert isinstance(decode(row["text"]), str) == isinstance(value, str)


@pytest.mark.parametrize("text", TABLE["integers"])
def test_integers_that_no_float_holds(text: str) -> None:
    assert decode(text) == json.loads(text)
    assert encode(decode(text)) == text


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


def nested(levels: int) -> list[object]:
    """Return lists within lists."""
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_the_deepest_value() -> None:
    assert decode(encode(nested(500))) == nested(500)
    assert decode(encode({"a": nested(499)})) == {"a": nested(499)}


def refused() -> dict[str, object]:
    """Return the values that the table names."""
    in_itself: list[object] = []
    in_itself.append(in_itself)
    today = datetime.datetime(2027, 1, 31, tzinfo=datetime.timezone.utc)
    return {
        "bytes": b"x",
        "bytes in an object": {"a": b"x"},
        "a date": today,
        "a date in an array": [today.date()],
        "a set": {1, 2},
        "a function": refused,
        "a class's object": object(),
        "NaN": math.nan,
        "infinity in an array": [math.inf],
        "an array in itself": in_itself,
        "501 levels": nested(501),
        "100,000 levels": nested(100_000),
    }


@pytest.mark.parametrize("name", TABLE["refused"])
def test_values_that_no_package_takes(name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(TABLE["refused"][name])) as error:
        encode(refused()[name])
    assert "a value must be JSON" in str(error.value)


def test_keys_that_are_no_str() -> None:
    with pytest.raises(TypeError, match="keys must be str: 1 would read back as a str"):
        encode({"a": [{1: "x"}]})


def test_a_tuple_reads_as_a_list() -> None:
    assert decode(encode((1, (2,)))) == [1, [2]]
