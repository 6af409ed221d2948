"""Paths as text: one form for every name, one name for every form, and nothing that drives a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.snapshots.paths import printable_path, raw


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"src/a.py", "src/a.py"),
        ("naïve 日本.txt".encode(), "naïve 日本.txt"),
        (b"quo\"te's", "quo\"te's"),
        (b"two\nlines", "two\\x0alines"),
        (b"caf\xe9", "caf\\xe9"),
        (b"back\\slash", "back\\x5cslash"),
        (b"\x1b[2J", "\\x1b[2J"),
        ("\u202egpj".encode(), "\\xe2\\x80\\xaegpj"),
    ],
)
def test_a_name_is_shown_and_read_back(name: bytes, text: str) -> None:
    assert printable_path(name) == text
    assert raw(text) == name


@given(st.binary())
def test_every_name_has_one_printable_form(name: bytes) -> None:
    text = printable_path(name)

    assert text.isprintable()
    assert raw(text) == name
    assert json.loads(json.dumps(text)) == text
    text.encode()


@given(st.binary(), st.binary())
def test_two_names_never_share_a_form(one: bytes, other: bytes) -> None:
    assert (printable_path(one) == printable_path(other)) == (one == other)
