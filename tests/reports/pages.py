"""Texts of reports, drawn from scripted events, summaries and outcomes: one page for each report, with titled sections.

The texts are in tests/reports/screens, beside the screens of a terminal.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

from goalrunner.core import events
from goalrunner.core.agent_ports import ApprovalRequest
from goalrunner.core.endings import timed_out
from goalrunner.core.errors import some
from goalrunner.core.events import Event, Record
from goalrunner.core.fold import apply
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AgentConfig,
    Approvals,
    Budget,
    JudgeConfig,
    ValidatorSpec,
    WorkspaceConfig,
)
from goalrunner.core.labels import Label
from goalrunner.core.observation import (
    ArtifactRef,
    DiffStat,
    EvidenceRow,
    Observation,
    Snapshot,
    TranscriptRef,
)
from goalrunner.core.outcome import AgentSession, GoalStatus, StopReason, Usage
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.run_summary import RunSummary
from goalrunner.core.verdict import GoalVerdict, ValidatorResult
from goalrunner.reports import questions
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.evidence import evidence_facts, observation_text
from goalrunner.reports.layout import (
    Quoted,
    ReportLine,
    StepLine,
    laid_out,
    output_lines,
)
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.next_steps import next_steps
from goalrunner.reports.progress import Progress
from goalrunner.reports.run_header import resolved_lines, waits_for
from goalrunner.reports.run_table import listing_text
from goalrunner.reports.show import show_text, state_lines
from goalrunner.reports.status import status_lines
from tests.support import told_run
from tests.support.told_run import (
    MISSING,
    TIME,
    checked,
    created,
    message,
    numbered,
    outcome,
    started,
)

NOW = datetime.fromisoformat(TIME) + timedelta(minutes=3)
ROUND_1 = events.RoundStarted(round=1, prompt="first")
ROUND_1_ENDS = events.RoundFinished(round=1, reason="answered", steps=1)
RED = events.VerdictRecorded(round=1, verdict=told_run.red_verdict())
CAPPED = events.RunEnded(
    stop_reason=StopReason.MAX_ITERATIONS, message="not complete after 1 round"
)
EVIL = "\x1b]0;owned\x07echo \x1b[2J\x1b[31mhi\r\n\u202eknil [bold]x[/bold]"
Sections = dict[str, str]


def state_of(*happened: Event) -> RunState:
    """Return the state after these events, a minute each."""
    state: RunState | None = None
    for place, event in enumerate(happened, start=1):
        state = apply(
            state,
            Record(seq=place, at=f"2026-11-02T10:{place:02}:00.000+00:00", event=event),
        )
    assert state is not None
    return state


def lines_of(*happened: Event, columns: int | None = None) -> str:
    """Return the lines of events."""
    narrative = Narrative(lambda _: "git, clean")
    lines: list[ReportLine] = []
    for record in numbered(*happened):
        lines += narrative.lines_of(record)
    return laid_out(lines, columns)


def in_round(*happened: Event) -> str:
    """Return the lines of events of round 1."""
    text = lines_of(created(), started(), ROUND_1, *happened)
    return text.split("\n", 4)[4]


def shown(
    *happened: Event,
    lost: bool = False,
    words: Callable[[TranscriptRef], str] | None = None,
) -> str:
    """Return what `goal show` prints of a run with these events."""
    return "".join(
        show_text(numbered(*happened), folder="/r", lost=lambda: lost, words=words)
    )


def rounds() -> Sections:
    """A whole run of two rounds, in a pipe and on terminals."""
    stream = io.StringIO()
    with Progress(stream, place=lambda _: "git, clean") as progress:
        for record in told_run.two_rounds():
            progress.on_record(record)
        progress.finish(outcome(), copy="/tmp/out.json")
    happened = [record.event for record in told_run.two_rounds()]
    widths = {
        f"{columns} columns": lines_of(*happened, columns=columns)
        for columns in (40, 80, 120)
    }
    return {"a pipe": stream.getvalue(), **widths, "goal show": shown(*happened)}


def first_lines() -> Sections:
    """The first lines of runs, and of a dry run."""
    checks = started().model_copy(
        update={"checks": "overlay · protects tests/**", "notes": ("it is late",)}
    )
    some = Approvals(require=("shell",), commands=("git push*",), expires=None)
    whole = Goal(
        objective="Make parse() accept\nempty input.",
        success_criteria=("pytest passes", "parse('') returns an empty Document"),
        constraints=("keep the signature",),
        timeout=1_800,
        agent=AgentConfig(model="openai/gpt-5"),
        judge=JudgeConfig(model="agent", minimum_score=0.8),
        budget=Budget(tokens=200_000, cost_usd=2),
        workspace=WorkspaceConfig(path="/src/parser"),
        validators=(
            ValidatorSpec(name="pytest", run="pytest -q"),
            ValidatorSpec(name="style", python="checks:style", timeout=None),
        ),
    )
    recorded = Goal(
        objective="x",
        max_iterations=None,
        agent=AgentConfig(model="scripted//w/words.jsonl"),
        workspace=WorkspaceConfig(path="/w"),
        validators=(ValidatorSpec(run="true"),),
    )
    return {
        "with a check environment and a note": lines_of(created(), checks),
        "without a limit": lines_of(
            created(max_iterations=None, timeout=None), started()
        ),
        "without a judge": lines_of(created(), started(judge="")),
        "agent and judge are recorded": lines_of(
            created(), started("scripted//w/a.jsonl", "scripted//w/b.jsonl")
        ),
        "the judge is recorded": lines_of(
            created(), started("openai/gpt-5", "scripted//w/b.jsonl")
        ),
        "nothing waits for a person": waits_for(Approvals(), "low") + "\n",
        "a high risk": waits_for(Approvals(expires=None), "high") + "\n",
        "a critical risk": waits_for(Approvals(expires=None), "critical") + "\n",
        "some commands": waits_for(some, "low") + "\n",
        "a dry run": laid_out(resolved_lines(whole, place="git, clean")),
        "a dry run with a recording": laid_out(resolved_lines(recorded)),
    }


def unusual() -> Sections:
    """Events of a round that are not usual."""

    def reported(**fields: Any) -> events.ToolResultRecorded:
        item = Observation(
            id="o1", round=1, command="pytest -q", reported_by="claude", **fields
        )
        return events.ToolResultRecorded(
            tool_call_id="1", evidence_ref="o1", observation=item
        )

    fallback = GoalVerdict(score=0.0, complete=False, source="fallback")
    refuted = told_run.red_verdict().model_copy(update={"score": 1.0})
    validators = GoalVerdict(
        score=0.0, complete=False, missing="tests", source="validators"
    )
    checks = checked(True, "43 passed").model_copy(
        update={
            "protected_changes": tuple(
                f"t{number}.py (changed; existing test)" for number in range(7)
            ),
            "labels": ("flaky: tests",),
            "leaked": ("x.py",),
            "changed_checks": events.ChangedChecks(
                key="k", paths=("a.py", "b.py"), results=()
            ),
        }
    )
    refused = checked(True, "").model_copy(
        update={
            "results": (),
            "refusal": "installed packages changed",
            "hint": "allow them",
        }
    )
    changes = DiffStat(files=2, added=9, removed=2)
    changed = events.ChangedChecks(
        key="k", paths=("t.py",), results=(), why="tests of the start are lost"
    )

    def reviewed(*items: events.ReviewedChange) -> events.ChecksReviewed:
        decision: Literal["accepted", "refused"] = (
            "refused" if any(item.problem for item in items) else "accepted"
        )
        return events.ChecksReviewed(round=1, key="k", decision=decision, changes=items)

    return {
        "the model and the judge": in_round(
            events.UsageRecorded(account="agent", usage=Usage(calls=1, retries=2)),
            events.RoundFinished(round=1, reason="max_steps", steps=100),
            checked(False, "2 failed, 41 passed"),
            events.AuditFailed(round=1, kind="parse", detail="score is no number"),
            events.AuditFailed(
                round=1, kind="parse", detail="no JSON", answer="Looks\ngood to me."
            ),
            events.AuditFailed(round=1, kind="transport", detail=""),
            events.AuditFailed(round=1, kind="authentication", detail="401"),
            events.VerdictRecorded(round=1, verdict=fallback),
            events.VerdictRecorded(
                round=1, verdict=refuted, refusals=('o1 does not hold "44 passed"',)
            ),
            events.VerdictRecorded(round=1, verdict=validators),
            events.QuestionOpened(question="Which port?"),
        ),
        "what an external agent reports": in_round(
            reported(source="shell", facts=("exit 0",)),
            reported(source="Bash"),
            events.RoundFinished(round=1, left=("sleep",)),
            events.RoundFinished(
                round=1, left=("a\x1b[31m", *("node" * 20 for _ in range(6)))
            ),
        ),
        "checks": in_round(
            checks,
            refused,
            events.WorkspaceChanged(
                paths=("y.py",), snapshot=Snapshot(id="a" * 64, tree="a" * 64)
            ),
        ),
        "changed checks": in_round(
            checked(False, "1 failed").model_copy(update={"changed_checks": changed}),
            reviewed(
                events.ReviewedChange(
                    path="t.py", change="@@ -1 +1 @@", quote="accept empty input"
                )
            ),
            reviewed(
                events.ReviewedChange(
                    path="t.py", change="@@ -1 +1 @@", quote="accept empty input"
                ),
                events.ReviewedChange(
                    path="u.py",
                    change="lost: u.py::test_b",
                    problem="no words ask for it",
                ),
            ),
            events.ChecksReviewed(
                round=1, key="k", decision="undecided", reason="the diff is too long"
            ),
            checked(True, "1 passed").model_copy(
                update={
                    "changed_checks": changed.model_copy(
                        update={"labels": ("nothing changed",)}
                    )
                }
            ),
        ),
        "a green baseline": lines_of(
            created(),
            started(),
            events.BaselineTaken(standing="green", results=checked(True, "ok").results),
        ),
        "long names": in_round(
            checked(True, "ok", name="integration"), checked(True, "ok", name="x" * 40)
        ),
        "wide characters": in_round(
            told_run.tool_result(
                "shell", "echo 日本語日本語日本語日本語", "出口 0", 0.1
            )
        ),
        "escape sequences": in_round(
            told_run.tool_result("shell", EVIL, EVIL, 0.1),
            checked(False, EVIL, name="a\x1b[1mb"),
            events.VerdictRecorded(round=1, verdict=told_run.red_verdict(EVIL)),
        ),
        "the end of a round": in_round(
            events.RoundFinished(round=1, changes=changes, total=changes),
            checked(False, "2 failed"),
            events.RoundStarted(round=2, prompt="retry"),
        ),
        "a TAP report": laid_out(output_lines("output", TAP, 5)),
        "a quoted line": laid_out(
            [Quoted("\tif  x:\x1b]0;owned\x07" + " and the next" * 9)], 40
        ),
        "a long command": laid_out(
            [StepLine("shell", subject=LONG, time="0.9 s", remark="exit 1")], 80
        ),
        "a very long command": laid_out(
            [StepLine("shell", subject=LONG * 9, time="0.9 s")], 80
        ),
        "a long remark": laid_out(
            [StepLine("judge", "✗", "0.62", remark="missing " * 25)], 80
        ),
        "a long time": laid_out(
            [StepLine("shell", subject="make", time="12 min 34 s", remark="exit 0")]
        ),
    }


LONG = "for name in one two three; do echo compiling $name and what it depends on; done"
TAP = """\
TAP version 13
# Subtest: adds
not ok 1 - adds
  ---
  duration_ms: 17.7
  location: '/src/a.test.js:3:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:

    -1 !== 3

  code: 'ERR_ASSERTION'
  stack: |-
    TestContext.<anonymous> (/src/a.test.js:3:29)
  ...
1..1
# tests 1
"""


def endings() -> Sections:
    """The last lines of runs."""
    output = "\n".join(
        [
            *(f"line {number}" for number in range(20)),
            "  \x1b]0;x\x07AssertionError: 4",
            "^^^^",
        ]
    )
    failed = ValidatorResult(
        name="tests",
        passed=False,
        command="make test",
        duration=1.0,
        summary="exit 2",
        feedback=output,
    )
    plan = created().plan
    alone = created().model_copy(
        update={
            "plan": plan.model_copy(update={"has_judge": False, "takes_baseline": True})
        }
    )
    needs_red = {"has_judge": False, "takes_baseline": True, "wants_red": True}
    red_first = created().model_copy(update={"plan": plan.model_copy(update=needs_red)})
    budgeted = created().model_copy(
        update={
            "plan": plan.model_copy(
                update={"tokens": 1_000, "cost_usd": 1.0, "unenforced": ("cost_usd",)}
            )
        }
    )
    stopped: list[Event] = [
        alone,
        started(judge=""),
        ROUND_1,
        ROUND_1_ENDS,
        checked(False, "2 failed"),
        events.RoundStarted(round=2, prompt="retry"),
        events.RoundFinished(round=2, reason="answered", steps=1),
        events.StepStarted(step_id="validate-2", description="run 1 validator"),
    ]
    green = events.BaselineTaken(
        standing="green", results=checked(True, "43 passed").results
    )
    key = events.RunEnded(
        stop_reason=StopReason.AUTHENTICATION,
        message="the key is wrong\nexport KEY=...",
    )
    interrupted = events.RunEnded(
        stop_reason=StopReason.INTERRUPTED, message="interrupted"
    )
    external = started().model_copy(update={"agent_command": "claude -p"})
    session = events.SessionOpened(
        session=AgentSession(
            agent="claude", id="s1", model="claude-opus-5-5", version="2.1.330"
        )
    )
    answers = {0: "I look.", 1: "Now it is\n\x1b[31mdone\x1b[0m. " + "x" * 400}
    said = [
        message().model_copy(
            update={"text": TranscriptRef(offset=at, length=1, sha256=told_run.HASH)}
        )
        for at in answers
    ]
    answer = "Changed `parse`:\n\n- it accepts empty input\n    return Document()\n"
    return {
        "a wrong key": shown(created(), started(), key),
        "it goes on": shown(created(), started(), ROUND_1),
        "it is lost": shown(created(), started(), ROUND_1, lost=True),
        "the log is empty": shown(),
        "a validator failed": shown(
            created(),
            started(),
            ROUND_1,
            ROUND_1_ENDS,
            events.ValidatorsFinished(round=1, results=(failed,)),
            CAPPED,
        ),
        "stopped within round 2": shown(*stopped, timed_out(state_of(*stopped))),
        "before round 1": shown(
            alone,
            started(judge=""),
            green,
            events.RunEnded(stop_reason=StopReason.SATISFIED),
        ),
        "not started": shown(
            red_first,
            started(judge=""),
            green,
            events.RunEnded(
                stop_reason=StopReason.BASELINE_GREEN,
                message="not started: the validators already pass",
            ),
        ),
        "the session of an external agent": shown(
            created(), external, ROUND_1, session, session, ROUND_1_ENDS, CAPPED
        ),
        "interrupted in a turn of unknown usage": shown(
            budgeted, external, ROUND_1, message("user"), interrupted
        ),
        "a citation is invalid": shown(
            created(), started(), ROUND_1, ROUND_1_ENDS, RED, CAPPED
        ),
        "the last words of a round": shown(
            created(),
            started(),
            ROUND_1,
            *said,
            ROUND_1_ENDS,
            words=lambda ref: answers[ref.offset],
        ),
        "a long answer": shown(
            created(),
            started(),
            ROUND_1,
            message(),
            ROUND_1_ENDS,
            CAPPED,
            words=lambda _: answer,
        ),
        **_outcomes(),
    }


def _outcomes() -> Sections:
    """The last lines of outcomes."""
    changes = DiffStat(files=2, added=9, removed=2)
    complete, red = outcome(), told_run.red_verdict()
    wrong_key = "openai: the key is wrong\nexport OPENAI_API_KEY=..."
    unpriced = {
        "agent": Usage(input_tokens=90, cost_usd=None, calls=1),
        "judge": Usage(input_tokens=10, calls=1),
    }
    many = tuple(f"t{number}.py" for number in range(9))
    endings: dict[str, dict[str, Any]] = {
        "files changed": {"changes": changes},
        "no price": {"usage": unpriced},
        "labels": {
            "labels": (
                "flaky: tests",
                "rests on changed files: build",
                "of a later version: x",
            )
        },
        "checks differ": {
            "labels": ("checks differ: a.py, conf test.py",),
            "differing": ("a.py", "conf test.py"),
        },
        "checks differ, and tests are extended": {
            "labels": ("checks differ: t0.py",),
            "differing": many,
        },
        "many checks differ": {
            "labels": (Label.CHECKS_DIFFER.about(some(many)),),
            "differing": many,
        },
        "tests removed": {
            "labels": ("tests removed: 2", "checks differ: t0.py"),
            "differing": many,
        },
        "nothing changed": {
            "labels": ("nothing changed", "checks passed before the change")
        },
    }
    sections = {
        title: laid_out(closing_lines(complete.model_copy(update=more)))
        for title, more in endings.items()
    }
    for status, reason, text in (
        (
            GoalStatus.CAPPED,
            StopReason.MAX_ITERATIONS,
            "the limit of 2 rounds is reached",
        ),
        (GoalStatus.FAILED, StopReason.AUTHENTICATION, wrong_key),
        (GoalStatus.CANCELLED, StopReason.INTERRUPTED, "interrupted by Ctrl-C"),
    ):
        ended = outcome(status, reason, text=text, verdict=red).model_copy(
            update={"labels": ("checks differ: t.py",)}
        )
        sections[str(status)] = laid_out(closing_lines(ended))
    note = 'editable: "scr/**" matches no file; did you mean "src/**"?'
    noted = told_run.state_of().model_copy(update={"notes": (note, "another note")})
    sections["a pattern matches nothing"] = laid_out(
        closing_lines(outcome(GoalStatus.CAPPED, None), noted)
    )
    return sections


WAITS = {"id": "a1", "kind": "shell", "action": "rm -rf\n build"}
SUMMARIES: dict[str, dict[str, Any]] = {
    "complete": {},
    "running": {
        "status": "running",
        "stop_reason": None,
        "finished_at": "",
        "updated_at": "9999-01-01T00:00:00+00:00",
        "exit_code": None,
        "score": 0.62,
        "complete": False,
        "missing": MISSING,
        "criteria_satisfied": 1,
        "judge_model": "",
        "tokens": 0,
        "cost_usd": 0.0,
        "max_iterations": None,
        "limits": {},
        "current_step": "run 2 validators",
        "open_questions": ["Which port?"],
        "approvals": [WAITS],
        "validators": [
            {"name": "tests", "passed": True, "summary": "43 passed"},
            {"name": "ruff", "passed": False, "summary": "exit 1"},
        ],
    },
    "failed": {
        "status": "failed",
        "stop_reason": "model_not_found",
        "message": "no model gpt-x\n--model openai/gpt-5",
        "score": None,
    },
    "lost": {"status": "lost", "stop_reason": None, "exit_code": None, "pid": 7},
    "a person decides": {
        "status": "blocked",
        "stop_reason": "approval_required",
        "message": "this waits for a person: a1 shell: rm -rf build\ngoal approve k3f9, or goal deny k3f9 --reason TEXT",
        "approvals": [WAITS],
        "round_ended": True,
    },
    "a question": {
        "status": "blocked",
        "stop_reason": "question_open",
        "open_questions": ["Which port?"],
    },
    "a validator failed": {
        "status": "capped",
        "stop_reason": "timeout",
        "missing": "validator tests: 1 failed\n"
        + "\n".join(f"line {number}" for number in range(9))
        + "\n  indented",
    },
    "labels": {
        "labels": [
            "checks changed: tests/test_a.py",
            "flaky: tests",
            "of the future: x",
        ]
    },
    "nothing is known of the usage": {
        "tokens": None,
        "uncounted_calls": 2,
        "cost_usd": None,
    },
    "a call is uncounted": {
        "uncounted_calls": 1,
        "cost_usd": None,
        "known_cost_usd": 0.2,
    },
    "a call has no price": {"cost_usd": None, "known_cost_usd": 0.2},
    "nothing was used": {"tokens": 0, "cost_usd": 0.0, "judge_tokens": 0},
    "a long objective": {
        "objective": "Write\n\x1b[31mmore\x1b[0m " + "words " * 20,
        "max_iterations": None,
    },
}


def summaries() -> list[RunSummary]:
    """Return the summaries of runs."""
    return [
        RunSummary.read(told_run.summary(**changes)) for changes in SUMMARIES.values()
    ]


def statuses() -> Sections:
    """`goal status` of runs."""
    texts = [
        laid_out(status_lines(summary, NOW, "/state/runs/k3f9-make-parse"), 80)
        for summary in summaries()
    ]
    unreadable = RunSummary.read(
        {"run_id": "k3f9", "status": "unreadable", "message": "no JSON"}
    )
    return {
        **dict(zip(SUMMARIES, texts, strict=True)),
        "unreadable": laid_out(status_lines(unreadable, NOW, "/r")),
    }


def lists() -> Sections:
    """`goal list` at several widths."""
    runs = [*summaries(), RunSummary.read({"run_id": "c3", "status": "unreadable"})]
    return {
        str(columns): listing_text(runs, NOW, columns)
        for columns in (None, 120, 70, 60, 40)
    }


FILE = {"goal_file": "/a b/g.toml", "status": "failed"}
COMMANDS: tuple[dict[str, Any], ...] = (
    *(
        {"iterations": 2, "round_ended": True, **values}
        for values in (
            {"stop_reason": "max_iterations", "limits": {"max_iterations": 10}},
            {"stop_reason": "timeout", "limits": {"timeout": 1800.0}},
            {"stop_reason": "timeout", "limits": {"timeout": 2.5}},
            {
                "stop_reason": "budget_exhausted",
                "limits": {"tokens": 1000},
                "tokens": 1200,
            },
            {
                "stop_reason": "budget_exhausted",
                "limits": {"cost_usd": 0.5},
                "known_cost_usd": 0.5,
            },
            {
                "stop_reason": "budget_exhausted",
                "limits": {"cost_usd": 0.5},
                "cost_usd": None,
            },
            {"stop_reason": "budget_exhausted"},
            {
                "stop_reason": "budget_exhausted",
                "limits": {"tokens": 1000, "cost_usd": 0.5},
                "cost_usd": None,
                "uncounted_calls": 1,
            },
            {
                "stop_reason": "question_open",
                "limits": {"tokens": 1000},
                "tokens": 1200,
            },
            {
                "stop_reason": "interrupted",
                "limits": {"max_iterations": 2, "timeout": 60.0},
            },
            {
                "stop_reason": "interrupted",
                "limits": {"timeout": 60.0},
                "duration": 61.5,
            },
            {"stop_reason": "denied", "limits": {"max_iterations": 2}},
        )
    ),
    {
        "status": "blocked",
        "stop_reason": "approval_required",
        "approvals": [WAITS, {**WAITS, "id": "a2"}],
        "open_questions": ["Which port?"],
    },
    {"status": "complete"},
    {"status": "running"},
    {"status": "cancelled", "stop_reason": "cancelled", "round_ended": True},
    {"status": "cancelled", "stop_reason": "cancelled", "iterations": 1},
    {"status": "cancelled", "stop_reason": "interrupted"},
    {"status": "lost", "round_ended": True},
    {"status": "failed", "stop_reason": "workspace_failed"},
    {"stop_reason": "timeout", "limits": {"timeout": 60.0}, "handed": ["agent"]},
    {
        "status": "blocked",
        "stop_reason": "approval_required",
        "approvals": [WAITS],
        "handed": ["agent"],
    },
    {**FILE, "stop_reason": "baseline_green"},
    {**FILE, "stop_reason": "baseline_green", "iterations": 1},
    {
        **FILE,
        "stop_reason": "validator_missing",
        "message": "[critic] cannot run here: x: not found",
    },
    {**FILE, "stop_reason": "validator_missing"},
    {**FILE, "stop_reason": "agent_failed", "message": "[agent] command"},
    {**FILE, "stop_reason": "agent_failed", "message": "no credit"},
    {**FILE, "stop_reason": "environment_failed", "message": "it is full"},
    {**FILE, "stop_reason": "environment_failed", "message": "[workspace] x"},
    {**FILE, "stop_reason": "model_not_found", "message": "see [judge] model"},
    {**FILE, "stop_reason": "authentication"},
    {
        **FILE,
        "status": "blocked",
        "stop_reason": "impossible",
        "iterations": 3,
        "round_ended": True,
    },
    {
        **FILE,
        "status": "capped",
        "iterations": 1,
        "stop_reason": "max_iterations",
        "limits": {"max_iterations": 1},
        "protected_changes": [
            "docs/a.md (changed; not editable)",
            "t.py (changed; existing test)",
        ],
    },
    {"status": "blocked", "stop_reason": "impossible"},
    {"status": "failed", "stop_reason": "validator_missing"},
    {
        "status": "blocked",
        "stop_reason": "stalled",
        "iterations": 4,
        "criteria_total": 2,
        "round_ended": True,
    },
)
"""What summaries say of runs."""


def commands_after(values: dict[str, Any]) -> list[str]:
    """Return the commands that come next after a run."""
    summary = RunSummary.read(
        {"run_id": "k3f9", "status": "capped", "tokens": 0, "cost_usd": 0.0, **values}
    )
    return [fact.text for fact in next_steps(summary)]


def commands() -> Sections:
    """The commands that come next, by what the summary of a run says."""
    sections = {}
    for values in COMMANDS:
        title = " ".join(f"{name}={value}" for name, value in values.items())
        sections[title] = "".join(f"{command}\n" for command in commands_after(values))
    return sections


def states() -> Sections:
    """`goal show --state` of a run with approvals."""

    def asked(name: str, action: str) -> events.ApprovalRequested:
        rule, until = "[approvals] shell", "2026-11-03T10:00:00+00:00"
        return events.ApprovalRequested(
            approval_id=name,
            kind="shell",
            action=action,
            rule=rule,
            tool_call_id=f"call_{name}",
            expires_at=until,
            evidence_refs=("o3", "o4"),
        )

    state = state_of(
        created(),
        started(),
        asked("a1", "git push"),
        events.ApprovalRecorded(
            approval_id="a1", decision="approved", by="ann", evidence_refs=("o3", "o4")
        ),
        asked("a2", "rm -rf build"),
        events.ApprovalRecorded(
            approval_id="a2",
            decision="denied",
            by="bob",
            reason="not today",
            guarded=False,
        ),
        asked("a3", "git tag"),
    )
    return {"approvals": laid_out(state_lines(state))}


ROWS = (
    EvidenceRow(
        criterion="parse('') returns an empty Document",
        satisfied=True,
        observation="o12",
        known=True,
        source="shell",
        command="pytest -q tests/test_parser.py",
        facts=("exit 0",),
        quote="43 passed in 1.20s",
        snapshot="3f2a1b9c8d7e" + "0" * 52,
    ),
    EvidenceRow(
        criterion="parse('') returns an empty Document",
        satisfied=True,
        observation="o9",
        known=True,
        source="edit_file",
        command="src/parser.py",
        facts=("replaced",),
        fact="replaced",
        reported_by="claude",
        snapshot="aaaaaaaaaaaa" + "0" * 52,
        stale="src/parser.py changed after o9",
    ),
    EvidenceRow(criterion="it is fast", satisfied=False, missing="no measurement"),
    EvidenceRow(
        criterion="it is \x1b[31msmall",
        satisfied=False,
        observation="o99",
        quote="small",
    ),
    EvidenceRow(
        criterion="validator tests",
        kind="validator",
        satisfied=True,
        observation="o13",
        known=True,
        source="validator tests",
        command="pytest -q",
        facts=("exit 0", "green"),
        fact="43 passed",
    ),
)
NOT_COMPLETE = GoalVerdict(score=0.628, complete=False, missing="no measurement")


def evidence() -> Sections:
    """`goal show --evidence`, and an observation."""
    unreadable = GoalVerdict(score=0, complete=False, source="fallback")
    observation = Observation(
        id="o4",
        source="shell",
        facts=("exit 1",),
        command="pytest -q",
        round=1,
        output=ArtifactRef(sha256=told_run.HASH, size=9),
        before="a" * 64,
        after="b" * 64,
    )
    script = observation.model_copy(
        update={"command": "set -e\nmake\n", "reported_by": "claude", "round": 0}
    )
    return {
        "a pipe": laid_out(evidence_facts("k3f9-make-parse", NOT_COMPLETE, ROWS)),
        "32 columns": laid_out(
            evidence_facts("k3f9-make-parse", NOT_COMPLETE, ROWS), 32
        ),
        "no verdict": laid_out(evidence_facts("k3f9", None, ())),
        "no readable verdict": laid_out(evidence_facts("k3f9", unreadable, ())),
        "an observation": observation_text(observation, "1 failed\n", "a.py changed"),
        "a script": observation_text(script, "\x1b[31mdone\n", columns=60),
    }


def approval_request(
    action: str = "ls", preview: str = "", **more: Any
) -> ApprovalRequest:
    """Return a request for the approval of an action."""
    facts = {
        "id": "a1",
        "kind": "shell",
        "action": action,
        "rule": "[approvals] shell",
        "requested_at": "t",
        **more,
    }
    return ApprovalRequest(Approval.model_validate(facts), preview)


def approvals() -> Sections:
    """What a person is asked."""
    code = "    assert parse('') == Document(), 'the documentation promises an empty document here'"
    why = "the validators pass only with the agent's versions of these files"
    checks = approval_request(
        "checks changed: tests/test_a.py",
        f"-{code}\n+{code}\n  short\n",
        kind="checks",
        rule=why,
    )
    lost = events.ChangedTest(
        test="tests/test_a.py::test_b",
        change="lost",
        start="passed",
        delivered="absent",
        original="failed",
    )
    moved = events.ChangedTest(
        test="tests/test_a.py::test_c",
        change="changed",
        start="passed",
        delivered="passed",
        moved_to="tests/test_c.py",
    )
    changed = events.ChangedChecks(
        key="k",
        paths=("tests/test_a.py",),
        results=(),
        tests=(lost, moved),
        hint='allow = ["tests/test_a.py"]',
    )
    labelled = changed.model_copy(
        update={
            "labels": ("rests on changed files: data.json",),
            "tests": (),
            "hint": "",
        }
    )
    about_label = approval_request(labelled.action, "+{}\n", kind="checks", rule=why)
    complete = approval_request(
        "complete: make it", kind="complete", expires_at="2026-11-21T10:00:00+00:00"
    ).approval
    many = tuple(f"file{number}.py" for number in range(30))
    requests = {
        "a command": approval_request(
            "echo a\x1b[2K\r\nrm -rf \u202e/\x1b]0;title\x07"
        ),
        "a long command": approval_request("cat <<E\n" + "x\n" * 100 + "rm -rf /\nE"),
        "a command without blanks": approval_request("curl " + "x" * 200),
        "a completion": ApprovalRequest(complete, "+new\n", many, ROWS[:1]),
        "changed checks": checks,
        "changed checks with their tests": replace(
            checks, changed=changed.paths, checks=changed
        ),
        "a label": replace(about_label, changed=("data.json",), checks=labelled),
    }
    texts = {
        title: questions.approval_text(request, columns=60)
        for title, request in requests.items()
    }
    prompts = {
        title: questions.prompt_text(request) for title, request in requests.items()
    }
    return {
        **{title: f"{text}{prompts[title]}\n" for title, text in texts.items()},
        "the choices": questions.choices_text(50),
        "a question": questions.question_text("Which port?\nThe README names two."),
    }


PAGES: tuple[Callable[[], Sections], ...] = (
    rounds,
    first_lines,
    unusual,
    endings,
    statuses,
    lists,
    commands,
    states,
    evidence,
    approvals,
)


def page_text(sections: Sections) -> str:
    """Return a page as text."""
    return "\n".join(f"== {title}\n{text}" for title, text in sections.items())
