"""What of a run waits for a person, and what to type."""

from __future__ import annotations

import os

from goalrunner.core.goal import Approvals
from goalrunner.reports.listing import waiting_facts, waiting_line, waits_for
from goalrunner.reports.summary import Summary

WAITS = {"id": "a1", "kind": "shell", "action": "rm -rf\n build"}


def summary(**values: object) -> Summary:
    return Summary({"run_id": "k3f9", "status": "cancelled", "approvals": [WAITS], **values})


def test_the_header_names_what_waits() -> None:
    assert waits_for(Approvals(), "low") == ""
    assert waits_for(Approvals(expires=None), "high") == "a person decides on complete"
    assert waits_for(Approvals(expires=None), "critical") == "a person decides on complete, every command and write"
    some = Approvals(require=("shell",), commands=("git push*",), expires=None)
    assert waits_for(some, "low") == 'a person decides on shell, "git push*"'


def test_each_thing_that_waits_is_named() -> None:
    text = [fact.text for fact in waiting_facts(summary(open_questions=["Which?"]))]
    assert text == ["a1 shell: rm -rf build", "Which?"]
    assert waiting_line(summary()) == "k3f9 waits for your approval: goal status k3f9"


def test_a_run_that_asks_itself_is_answered_there() -> None:
    living = summary(status="running", pid=os.getpid(), updated_at="2999-01-01T00:00:00+00:00")
    assert [fact.text for fact in waiting_facts(living)][1] == "Answer at the terminal in which the run was started."
    assert waiting_line(living) == ""


def test_a_damaged_summary_is_no_crash() -> None:
    assert list(waiting_facts(summary(approvals=[1, None], open_questions=5))) == []
    assert waiting_line(summary(approvals="x")) == ""
