"""The message for each way in which a key of a goal file can be wrong.

`wrong_goals.txt` holds the cases: lines of TOML that follow `HEAD`, then `->` and each line of the error. After a
deliberate change of wording, GOALRUNNER_UPDATE_MESSAGES=1 writes the file anew.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from goalrunner.core.errors import GoalFileError
from goalrunner.goalfile.loading import load_goal_text

CASES = Path(__file__).with_name("wrong_goals.txt")
HEAD = 'objective = "x"\nmodel = "a/b"\nvalidator = "true"\n'
BARE = "# bare\n"


@cache
def cases() -> dict[str, str]:
    """Return the error by the text of the goal file's end."""
    found = {}
    for block in CASES.read_text().strip("\n").split("\n\n"):
        text, _, error = block.partition("\n->\n")
        found[text] = error
    return found


def error_of(text: str) -> str:
    """Return the error of a goal file that ends with `text`; a text that begins with BARE is the whole file."""
    with pytest.raises(GoalFileError) as refused:
        load_goal_text(
            text if text.startswith(BARE) else HEAD + text,
            "goal.toml",
            {},
            {},
            base=Path("/"),
        )
    return str(refused.value)


@pytest.mark.parametrize("text", cases())
def test_the_error_names_the_key_the_place_the_reason_and_the_replacement(
    text: str,
) -> None:
    assert error_of(text) == cases()[text]


@pytest.mark.skipif(
    "GOALRUNNER_UPDATE_MESSAGES" not in os.environ,
    reason="writes the expected messages anew",
)
def test_write_the_expected_messages() -> None:
    CASES.write_text(
        "\n\n".join(f"{text}\n->\n{error_of(text)}" for text in cases()) + "\n"
    )
