"""What of a run waits for a person, and what to type."""

from __future__ import annotations

import os

from goalrunner.model.approvals import Approvals
from goalrunner.reports.summary import Summary
from goalrunner.reports.waiting import waiting_facts, waiting_line, waits_for

WAITS = {"id": "a1", "kind": "shell", "action": "rm -rf\n build"}


def summary(**values: object) -> Summary:
    return Summary({"run_id": "k3f9", "status": "cancelled", "approvals": [WAITS], **values})


def test_the_header_names_what_waits() -> None:
    assert waits_for(Approvals(), "low") == ""
    assert waits_for(Approvals(expires=None), "high") == "a person decides on complete"
    assert waits_for(Approvals(expires=None), "critical") == "a person decides on complete, every command and write"
    some = Approvals(require=("shell",), commands=("git push*",), expires=None)
    assert waits_for(some, "low") == 'a person decides on shell, "git push*"'


def test_each_thing_that_waits_has_its_command() -> None:
    text = [fact.text for fact in waiting_facts(summary(open_questions=["Which?"]))]
    assert text[0] == "a1 shell: rm -rf build"
    assert text[1].startswith("goal approve k3f9 a1, or goal deny k3f9 a1 --reason TEXT")
    assert text[2:] == ["Which?", 'goal answer k3f9 "..."; then goal resume k3f9']
    assert waiting_line(summary()).startswith("k3f9 waits: goal approve k3f9 a1")


def test_a_run_that_asks_itself_is_answered_there() -> None:
    living = summary(status="running", pid=os.getpid(), updated_at="2999-01-01T00:00:00+00:00")
    assert [fact.text for fact in waiting_facts(living)][1] == "it is asked at the terminal of the run"
    assert waiting_line(living) == ""


def test_a_damaged_summary_is_no_crash() -> None:
    assert list(waiting_facts(summary(approvals=[1, None], open_questions=5))) == []
    assert waiting_line(summary(approvals="x")) == ""
