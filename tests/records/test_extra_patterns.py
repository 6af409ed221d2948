"""`[redact] extra` and `allow`: what a goal calls a secret, and what it lets stand."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from goalrunner.core.errors import UsageError
from goalrunner.core.goal_tables import RedactConfig
from goalrunner.records.redaction import LONGEST_LINE, Redactor
from tests.support.tokens import some, tokens

TOKEN = "ghp_" + some(36)


def test_a_variable_is_replaced_whatever_its_name_and_however_short() -> None:
    redactor = Redactor({"PIN": "4711", "OTHER": "4712"}, extra=["$PIN"])

    assert redactor.text("pin 4711, not 4712") == "pin [redacted:PIN], not 4712"


def test_a_variable_that_is_not_set_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\$PIN, which is not set"):
        Redactor({}, extra=["$PIN"])


def test_a_pattern_is_replaced_line_by_line() -> None:
    redactor = Redactor({}, extra=["/ACME-[0-9]+$/", "/(?i)grün/"])

    assert redactor.text("ACME-1\nACME-2 x\nz ACME-33\nGRÜN") == (
        "[redacted:extra]\nACME-2 x\nz [redacted:extra]\n[redacted:extra]"
    )
    assert redactor.take_counts() == {"extra": 3}


def test_what_is_allowed_stays() -> None:
    redactor = Redactor(
        {"MY_TOKEN": "hunter2hunter2"},
        extra=["/ACME-[0-9]/"],
        allow=["hunter2hunter2", TOKEN, "ACME-7"],
    )

    text = f"hunter2hunter2 {TOKEN} ACME-7"
    assert redactor.text(f"{text} ACME-8") == f"{text} [redacted:extra]"
    assert redactor.text(f"{TOKEN}x") == "[redacted:github token]"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("hunter2hunter2", 'must be "$NAME"'),
        (
            "/a(/",
            "is not a valid regular expression: missing ), unterminated subpattern at position 1",
        ),
        ("/a*/", "matches the empty text"),
        ("//", "matches the empty text"),
        ("/", 'must be "$NAME"'),
        ("$1", 'must be "$NAME"'),
    ],
)
def test_what_is_neither_variable_nor_pattern_is_refused_without_being_shown(
    entry: str, why: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        RedactConfig(extra=(entry,))
    assert f"Value error, {why}" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_pattern_that_matches_at_every_place_of_a_line_is_replaced_everywhere() -> (
    None
):
    assert Redactor({}, extra=["/x$/"]).text("x" * 2_000) == "[redacted:extra]" * 2_000


def test_chat_messages_keep_their_words() -> None:
    redactor = Redactor({"A": "role", "B": "tool"}, extra=["$A", "$B"])

    message = {"role": "tool", "content": "the role of a tool"}
    assert redactor.json(message) == {
        "role": "tool",
        "content": "the [redacted:A] of a [redacted:B]",
    }


def test_a_line_without_end_is_searched_in_pieces() -> None:
    redactor = Redactor({}, extra=["/ACME-[0-9]{4}/"])
    data = ("ä" * LONGEST_LINE + "ACME-1234" + "y" * 100).encode()

    redacted = redactor.data(data)

    assert redacted == data.replace(b"ACME-1234", b"[redacted:extra]")
    assert (
        b"".join(
            redactor.chunks(
                data[place : place + 70_001] for place in range(0, len(data), 70_001)
            )
        )
        == redacted
    )


VALUE = "hunter2-hunter2"
PIECES = [
    *(text for texts in tokens().values() for text in texts), TOKEN, TOKEN[:10], TOKEN[10:], VALUE, VALUE[:5],
    "ACME-1", "ACME-", "1", "foo", "ä", " ", "\n", "x", "-----BEGIN ", "[redacted:", "]", "[redacted:extra]",
    "[redacted:github token]", "://", "u:", "@", "\\n", "%3D", "sk-", "Authorization: Bearer ", "secret secret",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
PATTERNS = [
    "/ACME-[0-9]+/",
    "/^foo/",
    "/x$/",
    r"/\b1\b/",
    "/(?<=foo)ä/",
    "/(?<!x)secret/",
    "/[^ ]{1,9} !/",
    "/red.c/",
]


def redactor_of(patterns: Iterable[str]) -> Redactor:
    return Redactor(
        {"MY_SECRET": VALUE, "SHORT": "u:"},
        extra=["$SHORT", *patterns],
        allow=["ACME-11", tokens()["npm token"][0]],
    )


@given(text=texts, patterns=st.sets(st.sampled_from(PATTERNS)))
@example(text=f"foo{TOKEN}", patterns={"/^foo/"})
@example(text="foofoofoo", patterns={"/^foo/"})
@example(text=f"{VALUE}{TOKEN}", patterns=set())
@settings(deadline=None)
def test_redacting_twice_changes_nothing_and_no_replacement_is_damaged(
    text: str, patterns: set[str]
) -> None:
    redactor = redactor_of(sorted(patterns))

    once = redactor.text(text)
    counts = redactor.take_counts()

    assert redactor.text(once) == once
    assert redactor.take_counts() == {}
    for kind, number in counts.items():
        assert once.count(f"[redacted:{kind}]") >= number
    assert json.loads(json.dumps(redactor.json([once]))) == [once]


@given(
    text=texts,
    filler=st.sampled_from([0, 65_000, 200_000]),
    size=st.integers(1_000, 150_000),
    patterns=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_stream_is_redacted_as_the_whole_is(
    text: str, filler: int, size: int, patterns: bool
) -> None:
    redactor = redactor_of(PATTERNS if patterns else [])
    data = (text + "." * filler + text + "\n" * (filler // 1000) + text).encode()

    chunks = [data[place : place + size] for place in range(0, len(data), size)]

    assert b"".join(redactor.chunks(chunks)) == redactor.data(data)
