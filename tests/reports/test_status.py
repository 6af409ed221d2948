"""The commands that come next after a run: each is a line of its own that can be pasted."""

from __future__ import annotations

import os
import re
import shlex
from datetime import datetime, timedelta
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.core.run_summary import RunSummary
from goalrunner.reports import status
from goalrunner.reports.layout import laid_out
from goalrunner.reports.status import message_lines, next_steps
from goalrunner.reports.tables import listing_text
from tests.support.told_run import MISSING, TIME, summary

NOW = datetime.fromisoformat(TIME) + timedelta(minutes=3)


def status_text(values: dict[str, Any], folder: str = "", columns: int | None = None) -> str:
    return laid_out(status.status_lines(RunSummary.read(values), NOW, folder), columns)


def listed(values: list[dict[str, Any]], now: datetime, columns: int | None = None) -> str:
    return listing_text(list(map(RunSummary.read, values)), now, columns)


def test_a_complete_run() -> None:
    assert status_text(summary(), folder="/state/runs/k3f9-make-parse") == dedent("""\
        run        k3f9-make-parse
        goal       Make parse() accept empty input.
        status     complete (satisfied)
        rounds     2 of 10
        verdict    1.00 · complete · 2 of 2 criteria
        checks     ✓ tests 43 passed
        agent      anthropic/claude-sonnet-4-5
        judge      openai/gpt-5-mini
        limits     10 rounds · 30 min · no budget
        spent      3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)
        workspace  /src/parser
        started    2026-11-21 10:00:00 UTC · 3 min ago
        ended      2026-11-21 10:00:00 UTC · 3 min ago
        folder     /state/runs/k3f9-make-parse
        """)


def test_a_running_one_says_what_it_does() -> None:
    running = summary(
        status="running",
        stop_reason=None,
        finished_at="",
        pid=os.getpid(),
        updated_at="9999-01-01T00:00:00+00:00",
        exit_code=None,
        score=0.62,
        complete=False,
        missing=MISSING,
        criteria_satisfied=1,
        judge_model="",
        tokens=0,
        cost_usd=0.0,
        max_iterations=None,
        limits={},
        current_step="run 2 validators",
        open_questions=["Which port?"],
        validators=[
            {"name": "tests", "passed": True, "summary": "43 passed"},
            {"name": "ruff", "passed": False, "summary": "exit 1"},
        ],
    )
    assert status_text(running) == dedent("""\
        run        k3f9-make-parse
        goal       Make parse() accept empty input.
        status     running: run 2 validators
        rounds     2, no limit
        verdict    0.62 · not complete · 1 of 2 criteria
        missing    no evidence that parse('') returns an empty Document
        checks     ✓ tests 43 passed
                   ✗ ruff exit 1
        question   Which port?
        agent      anthropic/claude-sonnet-4-5
        judge      none; the validators decide
        limits     no round limit · no timeout · no budget
        spent      3 min 12 s
        workspace  /src/parser
        started    2026-11-21 10:00:00 UTC · 3 min ago
        updated    9999-01-01 00:00:00 UTC · now
        follow     goal watch k3f9-make-parse
        """)


def test_a_failed_one_says_why_and_what_to_do() -> None:
    failed = summary(
        status="failed",
        stop_reason="model_not_found",
        message="no model gpt-x\n--model openai/gpt-5",
        score=None,
        exit_code=4,
    )
    assert status_text(failed).splitlines()[2:6] == [
        "status     failed (model not found)",
        "           no model gpt-x",
        "           --model openai/gpt-5",
        "rounds     2 of 10",
    ]


def test_a_run_whose_process_is_gone_says_so() -> None:
    lost = summary(status="lost", stop_reason=None, exit_code=None, pid=7)
    said = status_text(lost)
    assert "status     lost: process 7 has ended unexpectedly; everything that it recorded is kept\n" in said
    assert RunSummary.read(lost).process_exit_code == 4


def test_a_summary_that_cannot_be_read_is_shown_as_such() -> None:
    assert status_text({"run_id": "k3f9", "status": "unreadable", "message": "no JSON"}, folder="/r") == (
        "run        k3f9\nstatus     unreadable\n           no JSON\nfolder     /r\n"
    )


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"status": "capped", "exit_code": 1}, 1),
        ({"status": "cancelled", "exit_code": 143}, 143),
        ({"status": "running", "exit_code": None}, 4),
        ({"status": "running", "exit_code": 0}, 4),
        ({"status": "complete", "exit_code": None}, 4),
        ({"status": "complete", "exit_code": False}, 4),
        ({"status": "complete", "exit_code": "0"}, 4),
        ({"status": "unreadable"}, 4),
        ({"status": 7}, 4),
    ],
)
def test_only_a_complete_run_gives_zero(changes: dict[str, Any], code: int) -> None:
    assert RunSummary.read(summary(**changes)).process_exit_code == code


def test_the_list_of_runs_is_a_table() -> None:
    other = summary(
        run_id="b2aa-try",
        status="capped",
        score=None,
        cost_usd=None,
        max_iterations=None,
        objective="Write\n\x1b[31mmore\x1b[0m " + "words " * 20,
    )
    empty = {"run_id": "c3", "status": "unreadable"}
    assert listed([summary(), other, empty], NOW, columns=100) == dedent("""\
        RUN              STATUS      ROUNDS  SCORE  TOKENS  COST      STARTED    GOAL
        k3f9-make-parse  complete    2/10    1.00   41,210  $0.21     3 min ago  Make parse() accept empty…
        b2aa-try         capped      2       -      41,210  no price  3 min ago  Write more words words wor…
        c3               unreadable  0       -      -       -         -
        """)


def test_a_narrow_terminal_is_spared_columns_and_no_row_is_longer_than_it() -> None:
    kept = {70: ["ROUNDS", "TOKENS", "STARTED"], 60: ["STARTED"], 40: []}
    for columns, names in kept.items():
        rows = listed([summary()], NOW, columns=columns).splitlines()
        assert rows[0].split() == ["RUN", "STATUS", *names, "GOAL"]
        assert max(map(len, rows)) <= columns
    assert rows[1] == "k3f9-make-parse  complete  Make parse()…"


def test_no_runs_is_an_empty_table() -> None:
    assert listed([], NOW) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(summary(), JSON)))
def test_a_damaged_summary_is_shown_and_never_a_crash(values: dict[str, Any]) -> None:
    assert "status     " in status_text(values)
    assert listed([values], NOW, columns=80).startswith("RUN")
    assert isinstance(RunSummary.read(values).process_exit_code, int)


def test_what_weakens_the_proof_stands_in_the_status() -> None:
    weak = status_text(summary(labels=["of the future: x", "self-judged"]))
    assert (
        "note       of the future: x\nnote       self-judged\n           Agent and judge are the same model.\n" in weak
    )


def test_labels_have_their_own_row_in_a_list_on_a_terminal() -> None:
    labelled = [summary(labels=["checks changed: tests/test_a.py", "flaky: tests"]), summary()]
    rows = listed(labelled, NOW, columns=80).splitlines()
    assert rows[2] == "  labels: checks changed, flaky"
    assert [row.startswith("k3f9") for row in rows] == [False, True, False, True]
    assert "[checks changed, flaky] Make parse()" in listed(labelled, NOW)


def test_a_red_validator_keeps_its_lines_in_the_status() -> None:
    missing = "validator tests: 1 failed\n" + "\n".join(f"line {number}" for number in range(9)) + "\n  indented"
    red = summary(status="capped", stop_reason="timeout", missing=missing, exit_code=1)
    assert dedent("""\
        missing    validator tests: 1 failed
                   …
                   line 5
                   line 6
                   line 7
                   line 8
                     indented
        """) in status_text(red, columns=80)


def test_the_status_of_a_run_that_waits_ends_with_a_command_a_line() -> None:
    waits = {"id": "a1", "kind": "shell", "action": "rm -rf build"}
    message = "this waits for a person: a1 shell: rm -rf build\ngoal approve k3f9, or goal deny k3f9 --reason TEXT"
    blocked = summary(
        status="blocked", stop_reason="approval_required", message=message, approvals=[waits], round_ended=True
    )
    said = status_text(blocked)
    assert said.endswith(
        dedent("""\
        accept     goal approve k3f9-make-parse a1
        reject     goal deny k3f9-make-parse a1 --reason "..."
        then       goal resume k3f9-make-parse
        changes    goal diff k3f9-make-parse
        evidence   goal show k3f9-make-parse --evidence
        """)
    )
    assert ", or goal deny" not in said


@pytest.mark.parametrize(
    ("changes", "spent", "row"),
    [
        (
            {"tokens": None, "uncounted_calls": 2, "cost_usd": None},
            "tokens unknown · cost unknown",
            ["unknown", "unknown"],
        ),
        (
            {"uncounted_calls": 1, "cost_usd": None, "known_cost_usd": 0.2},
            "at least 41,210 tokens · at least $0.20",
            [">= 41,210", ">= $0.20"],
        ),
        (
            {"uncounted_calls": 0, "cost_usd": None, "known_cost_usd": 0.2},
            "41,210 tokens · at least $0.20",
            ["41,210", ">= $0.20"],
        ),
        ({"tokens": 0, "uncounted_calls": 0, "cost_usd": 0.0, "judge_tokens": 0}, "3 min 12 s", ["-", "-"]),
    ],
)
def test_what_is_not_known_is_no_nought(changes: dict[str, Any], spent: str, row: list[str]) -> None:
    values = summary(**changes)
    (said,) = [line for line in status_text(values).splitlines() if line.startswith("spent")]
    assert said.endswith(f" {spent}")
    cells = re.split(r"  +", listed([values], NOW).splitlines()[1])
    assert cells[4:6] == row


def commands(**values: object) -> list[str]:
    """Return the commands after a run with these values."""
    summary = RunSummary.read({"run_id": "k3f9", "status": "capped", "tokens": 0, "cost_usd": 0.0, **values})
    facts = list(next_steps(summary))
    assert all(fact.whole and fact.label for fact in facts)
    return [fact.text for fact in facts]


@pytest.mark.parametrize(
    ("reason", "values", "first"),
    [
        ("max_iterations", {"limits": {"max_iterations": 10}}, ["goal resume k3f9 --max-iterations 20"]),
        ("timeout", {"limits": {"timeout": 1800.0}}, ["goal resume k3f9 --timeout 1h"]),
        ("timeout", {"limits": {"timeout": 2.5}}, ["goal resume k3f9 --timeout 5"]),
        ("budget_exhausted", {"limits": {"tokens": 1000}, "tokens": 1200}, ["goal resume k3f9 --tokens 2400"]),
        ("budget_exhausted", {"limits": {"cost_usd": 0.5}, "known_cost_usd": 0.5}, ["goal resume k3f9 --cost 1"]),
        (
            "budget_exhausted",
            {"limits": {"cost_usd": 0.5}, "cost_usd": None},
            ["goal resume k3f9 --allow-unenforced cost_usd", "goal resume k3f9 --cost inf"],
        ),
        ("budget_exhausted", {}, ["goal resume k3f9"]),
        (
            "budget_exhausted",
            {"limits": {"tokens": 1000, "cost_usd": 0.5}, "cost_usd": None, "uncounted_calls": 1},
            [
                "goal resume k3f9 --allow-unenforced tokens --allow-unenforced cost_usd",
                "goal resume k3f9 --tokens inf --cost inf",
            ],
        ),
        ("question_open", {"limits": {"tokens": 1000}, "tokens": 1200}, ["goal resume k3f9 --tokens 2400"]),
        ("interrupted", {"limits": {"max_iterations": 2, "timeout": 60.0}}, ["goal resume k3f9"]),
        ("interrupted", {"limits": {"timeout": 60.0}, "duration": 61.5}, ["goal resume k3f9 --timeout 2m"]),
        ("denied", {"limits": {"max_iterations": 2}}, ['goal resume k3f9 --max-iterations 4 --note "..."']),
    ],
)
def test_a_limit_is_raised_by_the_command(reason: str, values: dict[str, object], first: list[str]) -> None:
    assert commands(stop_reason=reason, iterations=2, round_ended=True, **values) == [*first, "goal diff k3f9"]


def test_what_waits_is_decided_first() -> None:
    waiting = [{"id": name, "kind": "shell", "action": "make"} for name in ("a1", "a2")]
    found = commands(
        status="blocked", stop_reason="approval_required", approvals=waiting, open_questions=["Which port?"]
    )
    assert found == [
        "goal approve k3f9 a1",
        'goal deny k3f9 a1 --reason "..."',
        "goal approve k3f9 a2",
        'goal deny k3f9 a2 --reason "..."',
        'goal answer k3f9 "..."',
        "goal resume k3f9",
    ]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"status": "complete"}, []),
        ({"status": "running"}, ["goal watch k3f9"]),
        ({"status": "cancelled", "stop_reason": "cancelled", "round_ended": True}, ["goal diff k3f9"]),
        ({"status": "cancelled", "stop_reason": "cancelled", "iterations": 1}, ["goal show k3f9"]),
        ({"status": "lost", "round_ended": True}, ["goal resume k3f9", "goal diff k3f9"]),
        ({"status": "failed", "stop_reason": "workspace_failed", "iterations": 0}, ["goal resume k3f9"]),
        (
            {"status": "capped", "stop_reason": "timeout", "limits": {"timeout": 60.0}, "handed": ["agent"]},
            ["goal show k3f9"],
        ),
        (
            {
                "status": "blocked",
                "stop_reason": "approval_required",
                "approvals": [{"id": "a1"}],
                "handed": ["agent"],
                "round_ended": True,
            },
            ["goal diff k3f9"],
        ),
        ({"status": "cancelled", "stop_reason": "interrupted"}, ["goal resume k3f9"]),
        (
            {"status": "failed", "stop_reason": "baseline_green", "goal_file": "/a b/g.toml"},
            [
                "validators or baseline in '/a b/g.toml'",
                "goal run '/a b/g.toml'",
            ],
        ),
        (
            {"status": "failed", "stop_reason": "baseline_green", "goal_file": "/g.toml", "iterations": 1},
            ["validators or baseline in /g.toml", "goal run /g.toml"],
        ),
        (
            {
                "status": "failed",
                "stop_reason": "validator_missing",
                "goal_file": "/g.toml",
                "message": "the critic cannot run here: x: not found",
            },
            ["[critic] in /g.toml", "goal run /g.toml"],
        ),
        (
            {"status": "failed", "stop_reason": "validator_missing", "goal_file": "/g.toml"},
            ["--validator, or validators in /g.toml", "goal run /g.toml"],
        ),
        (
            {"status": "failed", "stop_reason": "agent_failed", "goal_file": "/g.toml", "message": "[agent] command"},
            ["[agent] command in /g.toml", "goal run /g.toml"],
        ),
        (
            {"status": "failed", "stop_reason": "agent_failed", "goal_file": "/g.toml", "message": "no credit"},
            ["goal resume k3f9", "goal run /g.toml"],
        ),
        (
            {"status": "failed", "stop_reason": "environment_failed", "goal_file": "/g.toml", "message": "it is full"},
            ["goal run /g.toml"],
        ),
        (
            {
                "status": "failed",
                "stop_reason": "environment_failed",
                "goal_file": "/g.toml",
                "message": "[workspace] x",
            },
            ["[workspace] in /g.toml", "goal run /g.toml"],
        ),
        (
            {
                "status": "failed",
                "stop_reason": "model_not_found",
                "goal_file": "/g.toml",
                "message": "see [judge] model",
            },
            ["--model or --judge, GOAL_MODEL or GOAL_JUDGE, or the model in /g.toml", "goal run /g.toml"],
        ),
        (
            {
                "status": "failed",
                "stop_reason": "model_not_found",
                "goal_file": "/a b/g.toml",
                "message": "[agent] model",
            },
            ["--model or --judge, GOAL_MODEL or GOAL_JUDGE, or the model in '/a b/g.toml'", "goal run '/a b/g.toml'"],
        ),
        (
            {
                "status": "blocked",
                "stop_reason": "impossible",
                "goal_file": "/g.toml",
                "iterations": 3,
                "round_ended": True,
            },
            [
                "objective, success_criteria or validators in /g.toml",
                "goal run /g.toml",
                "goal diff k3f9",
            ],
        ),
        (
            {
                "iterations": 1,
                "stop_reason": "max_iterations",
                "limits": {"max_iterations": 1},
                "goal_file": "/g.toml",
                "protected_changes": ["docs/a.md (changed; not editable)", "t.py (changed; existing test)"],
            },
            [
                "goal resume k3f9 --max-iterations 2",
                'editable = [..., "docs/a.md"] in [workspace], then: goal run /g.toml',
            ],
        ),
        ({"status": "blocked", "stop_reason": "impossible"}, ['goal resume k3f9 --note "..."']),
        ({"status": "failed", "stop_reason": "validator_missing"}, ["goal resume k3f9"]),
        (
            {"status": "failed", "stop_reason": "authentication", "goal_file": "/g.toml"},
            ["goal resume k3f9", "goal run /g.toml"],
        ),
        (
            {"status": "blocked", "stop_reason": "stalled", "iterations": 4, "criteria_total": 2, "round_ended": True},
            ['goal resume k3f9 --note "..."', "goal diff k3f9", "goal show k3f9 --evidence"],
        ),
    ],
)
def test_the_commands_fit_the_ending(values: dict[str, object], found: list[str]) -> None:
    assert commands(**values) == found
    assert all(shlex.split(command)[0] == "goal" for command in found if ": " not in command and " in " not in command)


def test_only_lines_that_are_replaced_are_left_out_of_a_message() -> None:
    facts = list(message_lines("it waits\n\ngoal approve k3f9, or goal deny k3f9\ngoal doctor claude\n"))
    assert [(fact.text, fact.whole) for fact in facts] == [("it waits", False), ("goal doctor claude", True)]
