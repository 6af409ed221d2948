"""Answers that are not quite JSON are read; nothing is completed, guessed or invented."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.judge.check_review import parse_review
from goalrunner.judge.json_reader import UnreadableReplyError, boolean_of, only_object
from goalrunner.judge.verdict_parser import parse_confirmation, parse_reply

Json = dict[str, Any]

WHOLE = """\
{
  "criteria": [
    {
      "criterion": "the tests pass",
      "satisfied": true,
      "evidence": [{"observation": "o12", "quote": "43 passed"}],
      "missing": ""
    }
  ],
  "score": 1.0,
  "complete": true,
  "missing": ""
}"""


def read(text: str) -> Any:
    """The object with the key `a`."""
    return only_object(
        text, "an answer", re.compile(r'"a"\s*:'), lambda value: "a" in value
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "one\ntwo\tthree\r\n"}', {"a": "one\ntwo\tthree\r\n"}),
        ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}),
        ('{"a": 1, // so far\n "b": 2 # done\n}', {"a": 1, "b": 2}),
        ('{/* begin */ "a": /* one */ 1 /* end */}', {"a": 1}),
        (
            '{"a": "no // comment, /* none */ # none"}',
            {"a": "no // comment, /* none */ # none"},
        ),
        ('{"a": True, "b": False, "c": None}', {"a": True, "b": False, "c": None}),
        ('{"a": "True", "b": ["None"]}', {"a": "True", "b": ["None"]}),
        ('{"a": "say \\"yes\\"\n",}', {"a": 'say "yes"\n'}),
        ('```json\n{"a": 1,}\n```', {"a": 1}),
        ('```json\n{"a": 1,}', {"a": 1}),
        ('{"a": 1,}\n```', {"a": 1}),
        ('Here: {"a": 1,} That is all.', {"a": 1}),
        ('The set {1, 2} and { so on.\n{"a": 1,}', {"a": 1}),
        ('{"a": 1,}\nOnce more:\n{"a": 1}', {"a": 1}),
        ('{\xa0"a":\u20031,}', {"a": 1}),
        ('{"a": -1.5e+3,}', {"a": -1500.0}),
    ],
)
def test_harmless_departures_from_json_are_read(text: str, value: Json) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2',
        '{"a": 1',
        '{"a": "one',
        '{"a": "one\n, "b": 2}',
        '{"a": tru}',
        '{"a": yes}',
        "{a: 1}",
        "{'a': 1}",
        '{"a": 1 "b": 2}',
        '{"a" 1}',
        '{"a": 1,, "b": 2}',
        '{"a": "he said "yes" then"}',
        '{"a": 1]',
        '{"a": 1 /* no end }',
        '{"a": 1 // no end }',
        '{"a": NaN,}',
        '{"a": -Infinity,}',
        '{"a": "\\ud800",}',
        '{"a": 1, "a": 1,}',
        '{"b": {"a": 1,},}',
        '{"a": 1, /* "a": 2 */}',
        '{"a": 1, # "b": 2\n}',
        "{\"a\": 1, // 'a': 2\n}",
        '{"a": 1, //' + "x" * 2_000 + '"b": 2\n}',
        '{"a": 1,} {"a": 2,}',
        '{"a": 1,} and "a": 2',
        '{"a": 1,} "b": 2}',
    ],
)
def test_what_is_cut_ambiguous_or_twice_is_refused(text: str) -> None:
    with pytest.raises(UnreadableReplyError):
        read(text)


@pytest.mark.parametrize("value", ["true", "True", " TRUE\n"])
def test_true_as_text_is_true(value: str) -> None:
    assert boolean_of(value) is True


@pytest.mark.parametrize("value", ["false", "False", " FALSE\n"])
def test_false_as_text_is_false(value: str) -> None:
    assert boolean_of(value) is False


@pytest.mark.parametrize(
    "value",
    ["yes", "1", "", "not true", "truefalse", 1, 0, None, [True], {"true": True}],
)
def test_no_other_value_becomes_a_boolean(value: object) -> None:
    assert boolean_of(value) is value


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"43 passed"', '"43\npassed"'),
        ('"missing": ""\n}', '"missing": "",\n}'),
        ("true", "True"),
        ("true", '"true"'),
        ('"score"', '// all is shown\n  "score"'),
    ],
)
def test_a_verdict_that_is_not_quite_json_is_a_verdict(old: str, new: str) -> None:
    assert old in WHOLE
    assert parse_reply(WHOLE.replace(old, new)).passed


@pytest.mark.parametrize("no", ['"false"', '"False"', "False", "false"])
def test_a_text_that_says_false_is_false(no: str) -> None:
    incomplete = WHOLE.replace('"complete": true', f'"complete": {no}').replace(
        '"missing": ""\n}', '"missing": "x"\n}'
    )
    assert not parse_reply(incomplete).complete
    unsatisfied = parse_reply(WHOLE.replace('"satisfied": true', f'"satisfied": {no}'))
    assert not unsatisfied.passed


def test_the_same_texts_are_read_for_opinions_and_reviews() -> None:
    assert parse_confirmation('{"confirmed": "true", "reason": "o1\nshows it",}') == (
        True,
        "o1\nshows it",
    )
    assert parse_confirmation('{"confirmed": False, "reason": "no",}') == (False, "no")
    review = parse_review(
        '{"accepted": [{"items": ["hunk-1",], "quote": "be\nfriendly"},], /* none */ "refused": [],}'
    )
    assert review.quotes == {"hunk-1": ("be\nfriendly",)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"complete": true', '"complete": true, "complete": true,'),
        ('"missing": ""\n}', '"missing": "", "blocked": "no key",\n}'),
        ('"missing": ""\n}', '"missing": "",}\n"blocked": "no key"'),
        ('"missing": ""\n}', '"missing": "",}\nblocked: "no key"}'),
    ],
)
def test_a_key_that_is_there_twice_and_a_blocked_goal_are_not_complete(
    old: str, new: str
) -> None:
    assert old in WHOLE
    with pytest.raises(UnreadableReplyError):
        parse_reply(WHOLE.replace(old, new))


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    rest=st.dictionaries(st.text(max_size=5), _json, max_size=4),
    value=_json,
    indent=st.sampled_from([None, 1]),
)
def test_json_is_read_as_the_standard_library_reads_it(
    rest: Json, value: Any, indent: int | None
) -> None:
    text = json.dumps(rest | {"a": value}, indent=indent)
    assert read(text) == json.loads(text)


@given(rest=st.dictionaries(st.text(max_size=5), _json, max_size=4), value=_json)
def test_departures_do_not_change_the_value(rest: Json, value: Any) -> None:
    plain = rest | {"a": value}
    pieces = json.dumps(plain, indent=1).split("\n")
    departed = "\n".join(
        re.sub(r"(?<=[^\[{,])$", ",", piece) if number else piece
        for number, piece in enumerate(pieces)
    )
    departed = departed.rstrip(",").replace("\n", " // remark\n") + "\n"
    assert read(departed) == plain


def _incomplete(*changes: tuple[str, str]) -> str:
    text = WHOLE
    for old, new in changes:
        text = text.replace(old, new)
    return text


INCOMPLETE = [
    _incomplete(
        ('"complete": true', '"complete": false'),
        ('"missing": ""\n}', '"missing": "the timing"\n}'),
    ),
    _incomplete(('"satisfied": true', '"satisfied": false')),
    _incomplete(('"complete": true', '"complete": "false"')),
    _incomplete(('"complete": true', '"complete": False')),
    _incomplete(('"missing": ""\n}', '"missing": "the timing"\n}')),
    WHOLE[:-2],
    WHOLE[: WHOLE.index('"score"')],
    WHOLE.replace(
        "\n  ],",
        ',\n    {"criterion": "it is fast", "satisfied": false, "evidence": [], "missing": "the timing"}\n  ],',
    ),
]
_PIECES = [
    *'{}[]",:/\\#*\n ',
    "//",
    "/*",
    "*/",
    "```",
    "True",
    "False",
    "None",
    "<think>",
    "</think>",
]


@given(
    text=st.sampled_from(INCOMPLETE),
    edits=st.lists(
        st.tuples(
            st.integers(0, 400), st.integers(0, 3), st.sampled_from(["", *_PIECES])
        ),
        max_size=3,
    ),
    end=st.none() | st.integers(0, 400),
)
def test_no_mutation_of_an_incomplete_verdict_is_complete(
    text: str, edits: list[tuple[int, int, str]], end: int | None
) -> None:
    for place, cut, piece in edits:
        text = text[:place] + piece + text[place + cut :]
    try:
        outcome = parse_reply(text[:end])
    except UnreadableReplyError:
        return
    assert not outcome.passed or not outcome.complete


SLOW_FILLERS = (
    "{//",
    "{#",
    "{/**/",
    '{"a":',
    "{[",
    "{1,",
    "{ x",
    '{"\\"',
    '{"a":[1,],',
    "{,",
)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "filler",
    [
        "{/*",
        '{"a',
        "{/**/\n",
        *(pytest.param(filler, marks=pytest.mark.slow) for filler in SLOW_FILLERS),
    ],
)
def test_time_grows_with_the_length_of_an_answer_alone(filler: str) -> None:
    with pytest.raises(UnreadableReplyError):
        read(filler * (390_000 // len(filler)))
