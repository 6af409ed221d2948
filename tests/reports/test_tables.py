"""The table of agents."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime

from goalrunner.app.agents import CHAT_FACTS
from goalrunner.core.goal_tables import Approvals
from goalrunner.core.run_summary import RunSummary
from goalrunner.reports.layout import laid_out
from goalrunner.reports.narrative import waits_for
from goalrunner.reports.status import label_lines, status_lines
from goalrunner.reports.tables import agents_text, waiting_line


def test_a_narrow_terminal_cuts_the_table_and_not_what_is_to_be_typed() -> None:
    install = "npm install -g @somebody/with-a-long-name"
    way = replace(CHAT_FACTS.ways[0], program="long", path="")
    missing = replace(CHAT_FACTS, name="long", ways=(way,), install=install)
    rows = agents_text([CHAT_FACTS, missing], columns=40).splitlines()
    assert rows[0].endswith("…")
    assert f"long  {install}" in rows
    assert " ".join(rows[rows.index(f"long  {install}") + 1 :]).strip() == (
        'Any other program can be an agent: [agent] use = "command" or "acp".'
    )


def test_an_unknown_label_stands_alone() -> None:
    assert [fact.text for fact in label_lines(["of a later version: x"])] == ["of a later version: x"]


NOW = datetime.fromisoformat("2026-11-21T10:00:00+00:00")
WAITS = {"id": "a1", "kind": "shell", "action": "rm -rf\n build"}


def summary(**values: object) -> RunSummary:
    return RunSummary.read({"run_id": "k3f9", "status": "cancelled", "approvals": [WAITS], **values})


def test_the_header_names_what_waits() -> None:
    assert waits_for(Approvals(), "low") == ""
    assert waits_for(Approvals(expires=None), "high") == "a person decides on complete"
    assert waits_for(Approvals(expires=None), "critical") == "a person decides on complete, every command and write"
    some = Approvals(require=("shell",), commands=("git push*",), expires=None)
    assert waits_for(some, "low") == 'a person decides on shell, "git push*"'


def test_each_thing_that_waits_is_named() -> None:
    text = laid_out(status_lines(summary(open_questions=["Which?"]), NOW))
    assert "waits      a1 shell: rm -rf build\nquestion   Which?\n" in text
    assert waiting_line(summary()) == "k3f9 waits for your approval: goal status k3f9"


def test_a_run_that_asks_itself_is_answered_there() -> None:
    living = summary(status="running", pid=os.getpid(), updated_at="2999-01-01T00:00:00+00:00")
    text = laid_out(status_lines(living, NOW))
    assert (
        "waits      a1 shell: rm -rf build\n           Answer at the terminal in which the run was started.\n" in text
    )
    assert waiting_line(living) == ""


def test_a_damaged_summary_is_no_crash() -> None:
    text = laid_out(status_lines(summary(approvals=[1, None], open_questions=5), NOW))
    assert "waits" not in text
    assert "question" not in text
    assert waiting_line(summary(approvals="x")) == ""
