"""Whole runs in which an agent changes existing tests: the judge, a person or none accepts that."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, run_goal
from goalrunner.app.previous_run import load_state
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.core.errors import UsageError
from goalrunner.core.outcome import GoalOutcome, StopReason
from goalrunner.core.run_state import RunState
from goalrunner.goalfile.loading import load_goal
from goalrunner.records.run_folder import RunFolder
from goalrunner.testing import ScriptedApprover, ScriptedConversation
from tests.support.recordings import agent, judge, quote, recording, review, shell

OBJECTIVE = "Make total() add one more than before."
TEST = "import sys\nimport total\nsys.exit(total.total() != {})\n"
DONE = "printf 'def total():\\n    return 4\\n' > total.py; sed -i 's/3/4/' tests/test_total.py"
RESTORED = "sed -i 's/4/3/' tests/test_total.py; printf 'def total():\\n    return 3\\n' > total.py"
ASKED = "add one more than before"
GREEN = judge(("total() adds one more", [quote("o3", "return 4")]))


class Workspace:
    """A folder with a program and its test, and a goal that the agent reaches by changing both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "work" / "tests").mkdir(parents=True)
        (root / "work" / "total.py").write_text("def total():\n    return 2\n")
        (root / "work" / "tests" / "test_total.py").write_text(TEST.format(3))

    def run(
        self,
        *replies: dict[str, Any],
        judged: tuple[dict[str, Any], ...] | None = None,
        more: str = "",
        validator: str = 'validator = "PYTHONPATH=. python3 tests/test_total.py"',
        max_iterations: int = 10,
        **options: Any,
    ) -> GoalOutcome:
        model = recording(self.root / "agent.jsonl", *replies)
        lines = [
            f'objective = "{OBJECTIVE}"',
            f'model = "{model}"',
            f"max_iterations = {max_iterations}",
            validator,
        ]
        if judged is not None:
            lines.insert(
                2, f'judge = "{recording(self.root / "judge.jsonl", *judged)}"'
            )
        goal_file = self.root / "goal.toml"
        goal_file.write_text(
            "\n".join(
                [*lines, "[workspace]", f'path = "{self.root / "work"}"', more, ""]
            )
        )
        return asyncio.run(
            arun(load_goal(goal_file), RunOptions(home=self.root / "home", **options))
        )

    def state(self, outcome: GoalOutcome) -> RunState:
        return load_state(RunFolder(self.root / "home" / "runs" / outcome.run_id))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


CHANGED = (agent("", shell(DONE), shell("cat total.py")), agent("done"))


def test_the_judge_accepts_what_the_goal_asks_for(workspace: Workspace) -> None:
    outcome = workspace.run(*CHANGED, judged=(review((["hunk-1"], ASKED)), GREEN))
    assert (outcome.passed, outcome.iterations) == (True, 1), outcome
    assert outcome.labels == (
        "checks changed: tests/test_total.py (reviewed by the judge)",
    )
    (made,) = workspace.state(outcome).reviews
    assert [(change.path, change.quote) for change in made.changes] == [
        ("tests/test_total.py", ASKED)
    ]
    assert outcome.usage["judge"].calls == 2


@pytest.mark.parametrize(
    ("policy", "runs"),
    [("judge", 4), pytest.param("refuse", 3, marks=pytest.mark.slow)],
)
def test_what_was_reviewed_does_not_run_again(
    workspace: Workspace, policy: str, runs: int
) -> None:
    """The baseline, what is delivered, the original tests; for a review also what is delivered on the original source."""
    runs_of = workspace.root / "runs"
    line = f"echo >> {runs_of}; PYTHONPATH=. python3 tests/test_total.py"
    more = f'[approvals]\nchecks = "{policy}"'
    judged = (review((["hunk-1"], ASKED)), GREEN)
    outcome = workspace.run(
        *CHANGED,
        judged=judged,
        more=more,
        validator=f'validator = "{line}"',
        max_iterations=1,
    )
    assert (outcome.passed, len(runs_of.read_text())) == (policy == "judge", runs), (
        outcome
    )


def test_what_the_judge_refuses_goes_back_with_the_file_to_restore(
    workspace: Workspace,
) -> None:
    back = (agent("", shell(RESTORED), shell("cat total.py")), agent("done"))
    refused = review(refused={"hunk-1": "the test was right"})
    outcome = workspace.run(
        *CHANGED, *back, judged=(refused, judge(("c", [quote("o6", "return 3")])))
    )
    assert (outcome.passed, outcome.iterations, outcome.labels) == (True, 2, ()), (
        outcome
    )
    feedback = outcome.attempts[0].feedback or ""
    assert (
        "- restore tests/test_total.py: nothing in the goal asks for this change"
        in feedback
    )
    assert "the test was right" in feedback


def test_versions_that_the_judge_refused_are_not_reviewed_again(
    workspace: Workspace,
) -> None:
    """The run stalls; its end names the line that would have allowed the change."""
    rounds = [agent("as before")] * 4
    refused = review(refused={"hunk-1": "the test was right"})
    outcome = workspace.run(*CHANGED, *rounds, judged=(refused,))
    assert (outcome.stop_reason, outcome.usage["judge"].calls) == (
        StopReason.STALLED,
        1,
    ), outcome
    assert 'write under [workspace]: allow = ["tests/test_total.py"]' in outcome.message


def test_an_answer_without_valid_quotes_accepts_nothing(workspace: Workspace) -> None:
    invented = review((["hunk-1"], "you may change the tests"))
    outcome = workspace.run(*CHANGED, judged=(invented, invented))
    assert not outcome.passed
    assert outcome.attempts[0].feedback is not None
    assert "the goal does not say" in outcome.attempts[0].feedback


@pytest.mark.parametrize(
    ("judged", "more"),
    [
        (None, ""),
        pytest.param(
            (GREEN,), '[approvals]\nchecks = "person"', marks=pytest.mark.slow
        ),
        pytest.param(
            ({"account": "judge", "text": "fine"},) * 3 + (GREEN,),
            "",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["without a judge", "where the goal says so", "where the judge is unreadable"],
)
def test_a_person_decides(workspace: Workspace, judged: Any, more: str) -> None:
    person = ScriptedApprover(True)
    outcome = workspace.run(*CHANGED, judged=judged, more=more, approver=person)
    assert (outcome.passed, outcome.iterations) == (True, 1), outcome
    assert outcome.labels[0] == "checks changed: tests/test_total.py"
    assert [request.changed for request in person.requests] == [
        ("tests/test_total.py",)
    ]


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        ({}, "person"),
        ({"judge": "scripted/judge.jsonl"}, "judge"),
        ({"judge": "scripted/agent.jsonl"}, "person"),
        ({"judge": "agent"}, "person"),
        ({"judge": "scripted/judge.jsonl", "risk_class": "high"}, "person"),
        ({"judge": "agent", "approvals": {"checks": "judge"}}, "judge"),
        (
            {"judge": "scripted/judge.jsonl", "approvals": {"checks": "refuse"}},
            "refuse",
        ),
    ],
)
def test_the_default_is_an_independent_judge(
    tmp_path: Path, changes: dict[str, Any], policy: str
) -> None:
    for name in ("agent", "judge"):
        recording(tmp_path / f"{name}.jsonl", agent("x"))
    changes = {
        key: value.replace("scripted/", f"scripted/{tmp_path}/")
        if key == "judge"
        else value
        for key, value in changes.items()
    }
    goal = Goal(
        objective="x",
        validator="true",
        model=f"scripted/{tmp_path}/agent.jsonl",
        **changes,
    )
    assert resolve(goal, RunOptions(home=tmp_path / "home")).check_policy == policy


GOLDEN = "printf 'def total():\\n    return 4\\n' > total.py; echo 4 > golden.txt"
COMPARES = "python3 -c 'import total; assert str(total.total()) in open(\"golden.txt\").read()'"


@pytest.mark.parametrize(
    ("reviewed", "complete"),
    [
        (review((["hunk-1"], ASKED)), True),
        pytest.param(
            review(refused={"hunk-1": "the goal names no golden file"}),
            False,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["accepted", "refused"],
)
def test_a_result_that_rests_on_changed_data_is_reviewed_if_the_goal_says_so(
    workspace: Workspace, reviewed: dict[str, Any], complete: bool
) -> None:
    (workspace.root / "work" / "golden.txt").write_text("3\n")
    work = (agent("", shell(GOLDEN), shell("cat total.py")), agent("done"))
    more = (
        'allow = []\n[approvals]\nlabels = ["rests on"]\n[[validators]]\nrun = """'
        + COMPARES
        + '"""'
    )
    outcome = workspace.run(
        *work, judged=(reviewed, GREEN), more=more, validator="", max_iterations=1
    )
    label = "rests on changed files: golden.txt"
    assert (outcome.passed, outcome.labels) == (
        complete,
        (f"{label} (reviewed by the judge)" if complete else label,),
    )


def test_a_goal_may_refuse_every_change(workspace: Workspace) -> None:
    back = (agent("", shell(RESTORED), shell("cat total.py")), agent("done"))
    outcome = workspace.run(*CHANGED, *back, more='[approvals]\nchecks = "refuse"')
    assert (outcome.passed, outcome.iterations, outcome.labels) == (True, 2, ()), (
        outcome
    )
    assert "- restore tests/test_total.py" in (outcome.attempts[0].feedback or "")


def test_a_goal_that_asks_a_judge_needs_one() -> None:
    goal = Goal(
        objective="x",
        validator="true",
        model="scripted/x",
        approvals={"checks": "judge"},
    )
    with pytest.raises(UsageError, match="needs a judge"):
        run_goal(ScriptedConversation(), goal)
