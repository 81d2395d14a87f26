"""Any text is a key and a namespace, and no two of them are the same entry."""

from __future__ import annotations

import json
import re
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from texts import texts

from botwired._names import KEYS, NAMESPACES, Alphabet, is_digest

TEXTS = texts(min_size=1, max_size=5000)
NEAR_ESCAPES = st.from_regex(r"\A(_\.|__|_-)[a-fA-F0-9._-]{0,60}\Z")
NAMES = TEXTS | NEAR_ESCAPES | st.builds(lambda n: KEYS.to_wire(n).text, TEXTS)
BOTWIRE = {KEYS: r"[a-zA-Z0-9_.-]{1,128}", NAMESPACES: r"[a-zA-Z0-9_-]{1,64}"}
both = pytest.mark.parametrize("alphabet", [KEYS, NAMESPACES], ids=["keys", "namespaces"])


@both
@given(name=NAMES)
@example(name="_.")
@example(name="__")
@example(name="_..2E")
@example(name="_-" + "a" * 43)
@example(name="\n")
@example(name="a\n")
@example(name="caf\udc97")
def test_botwire_takes_every_name_and_it_comes_back(alphabet: Alphabet, name: str) -> None:
    wire = alphabet.to_wire(name)
    assert re.fullmatch(BOTWIRE[alphabet], wire.text)
    assert wire.is_digest == is_digest(wire.text)
    if not wire.is_digest:
        assert alphabet.from_wire(wire.text) == name


@both
@given(one=NAMES, other=NAMES)
def test_two_names_are_two_entries(alphabet: Alphabet, one: str, other: str) -> None:
    assert (alphabet.to_wire(one).text == alphabet.to_wire(other).text) == (one == other)


@both
@given(wire=NEAR_ESCAPES)
def test_what_another_client_has_named_is_reached_by_the_name_of_the_list(alphabet: Alphabet, wire: str) -> None:
    if re.fullmatch(BOTWIRE[alphabet], wire) and not is_digest(wire):
        assert alphabet.to_wire(alphabet.from_wire(wire)).text == wire


@pytest.mark.parametrize(("name", "wire"), [("\ud83d", "_..ED.A0.BD"), ("\ud83d\ude00", "_..F0.9F.98.80")])
def test_the_escape_of_surrogates(name: str, wire: str) -> None:
    assert KEYS.to_wire(name).text == wire


VECTORS = json.loads(Path(__file__).with_name("names.json").read_text())
"""What the Go code and the dashboard are held to as well."""


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=lambda v: v["wire"])
def test_the_escape_of_keys_stays_what_it_is(vector: dict[str, str]) -> None:
    assert KEYS.to_wire(vector["name"]).text == vector["wire"]


@pytest.mark.parametrize("vector", VECTORS["namespaces"], ids=lambda v: v["wire"])
def test_the_escape_of_namespaces_stays_what_it_is(vector: dict[str, str]) -> None:
    assert NAMESPACES.to_wire(vector["name"]).text == vector["wire"]


@pytest.mark.parametrize("wire", VECTORS["foreign_keys"])
def test_what_is_no_escape_is_its_own_name(wire: str) -> None:
    assert KEYS.from_wire(wire) == wire


class Role(str, Enum):
    ADMIN = "the admin"
    GUEST = "guest"


@both
@pytest.mark.parametrize("role", Role)
def test_a_member_of_an_enum_is_its_value(alphabet: Alphabet, role: Role) -> None:
    assert alphabet.to_wire(role) == alphabet.to_wire(role.value)
    assert type(alphabet.to_wire(role).text) is str


@both
def test_refusals_in_words(alphabet: Alphabet) -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        alphabet.to_wire("")
    with pytest.raises(TypeError, match="must be a str, not int"):
        alphabet.to_wire(42)  # type: ignore[arg-type]
