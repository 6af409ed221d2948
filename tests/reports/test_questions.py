"""What a person is shown who must decide, and what their typing means."""

from __future__ import annotations

import pytest

from goalrunner.reports.questions import approval_text, prompt_text, read_typed
from tests.reports.pages import approval_request


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("y\n", ("approved", "")),
        (" YES ", ("approved", "")),
        ("n", ("denied", "")),
        ("no, use make", ("denied", "use make")),
        ("n use make", ("denied", "use make")),
        ("a", ("all", "")),
        ("", ("", "")),
        ("yes but not now", ("", "")),
        ("yep", ("", "")),
        ("1", ("", "")),
    ],
)
def test_only_a_plain_yes_is_a_yes(line: str, typed: tuple[str, str]) -> None:
    assert read_typed(line) == typed


def test_what_is_left_out_is_said_and_can_be_seen() -> None:
    long = approval_request("cat <<E\n" + "x\n" * 100 + "rm -rf /\nE")
    assert "… 43 more lines" in approval_text(long)
    assert "[a]ll: show every line" in prompt_text(long)
    assert "rm -rf /" in approval_text(long, most=1000)
    assert "[a]ll: show every line" not in prompt_text(approval_request())
