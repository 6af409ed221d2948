"""What a person is shown who must decide, and what their typing means."""

from __future__ import annotations

import pytest

from goalrunner.core.observation import EvidenceRow
from goalrunner.core.ports import ApprovalRequest
from goalrunner.core.run_state import Approval
from goalrunner.reports import asking
from goalrunner.reports.asking import Typed


def request(action: str = "ls", preview: str = "", **more: object) -> ApprovalRequest:
    approval = Approval.model_validate(
        {"id": "a1", "kind": "shell", "action": action, "rule": "r", "requested_at": "t", **more}
    )
    return ApprovalRequest(approval, preview)


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("y\n", Typed(decision=True)),
        (" YES ", Typed(decision=True)),
        ("n", Typed(decision=False)),
        ("no, use make", Typed(decision=False, reason="use make")),
        ("n use make", Typed(decision=False, reason="use make")),
        ("a", Typed(everything=True)),
        ("", Typed()),
        ("yes but not now", Typed()),
        ("yep", Typed()),
        ("1", Typed()),
    ],
)
def test_only_a_plain_yes_is_a_yes(line: str, typed: Typed) -> None:
    assert asking.read_typed(line) == typed


def test_what_is_shown_cannot_drive_the_terminal_or_hide_a_line() -> None:
    shown = asking.approval_text(request("echo a\x1b[2K\r\nrm -rf \u202e/\x1b]0;title\x07"))
    assert "│ echo a\n" in shown
    assert "│ rm -rf /\n" in shown
    assert "\x1b" not in shown


def test_what_is_left_out_is_said_and_can_be_seen() -> None:
    long = request("cat <<E\n" + "x\n" * 100 + "rm -rf /\nE")
    assert "… 43 more lines" in asking.approval_text(long)
    assert "[a]ll: show every line" in asking.prompt_text(long)
    assert "rm -rf /" in asking.approval_text(long, most=1000)
    assert "[a]ll: show every line" not in asking.prompt_text(request())


def test_a_completion_shows_paths_patch_and_evidence() -> None:
    row = EvidenceRow(criterion="tests pass", satisfied=True, observation="o3", command="pytest -q", quote="3 passed")
    asked = request("complete: make it", kind="complete")
    shown = asking.approval_text(ApprovalRequest(asked.approval, "+new\n", ("a.py",), (row,)))
    for part in (
        "All checks passed. Accept the result?",
        "changed since the start: a.py",
        "│ +new",
        "o3 pytest -q",
        "“3 passed”",
    ):
        assert part in shown


def test_changed_checks_are_shown_with_paths_and_patch() -> None:
    asked = request("checks changed: tests/test_a.py", kind="checks")
    shown = asking.approval_text(ApprovalRequest(asked.approval, "-assert x\n+pass\n", ("tests/test_a.py",)))
    for part in (
        "The agent changed existing tests or their configuration.",
        "tests/test_a.py",
        "│ -assert x",
        "│ +pass",
    ):
        assert part in shown


def test_long_lines_are_broken_between_words_and_keep_their_indentation() -> None:
    code = "    assert parse('') == Document(), 'the documentation promises an empty document here'"
    asked = request("checks changed: tests/test_a.py", kind="checks")
    shown = asking.approval_text(ApprovalRequest(asked.approval, f"-{code}\n+{code}\n  short\n"), columns=60)
    assert all(len(line) <= 60 for line in shown.splitlines())
    assert (
        "  │ -    assert parse('') == Document(), 'the documentation\n  │      promises an empty document here'\n"
        in shown
    )
    assert "  │   short\n" in shown
    words = {word for line in shown.splitlines() for word in line.split()}
    assert {"documentation", "configuration.", "promises"} <= {word.strip("'") for word in words}


def test_a_line_without_blanks_is_shown_whole() -> None:
    shown = asking.approval_text(request("curl " + "x" * 200), columns=40)
    assert all(len(line) <= 40 for line in shown.splitlines())
    assert shown.count("x") >= 200


def test_the_choices_are_explained_within_the_width() -> None:
    assert all(len(line) <= 50 for line in asking.choices_text(50).splitlines())
