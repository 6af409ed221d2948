"""The refund case of Goals and State, `goals/refund`: what a person denied is never paid, what one approved is paid once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.core.goal import Goal
from goalrunner.goalfile.loading import load_goal
from tests.support.command_line import environment
from tests.support.course import Course
from tests.support.deciding import decide_approval

Measured = Callable[[Course], None]

REFUND = Path(__file__).parents[2] / "goals" / "refund"
HEADING = "order,amount\n"
PAID = f"{HEADING}O-104,189.00\n"


@pytest.fixture
def refund(course: Course, monkeypatch: pytest.MonkeyPatch) -> Goal:
    """The goal, in a copy of its folder."""
    monkeypatch.setenv("PATH", environment()["PATH"])
    shutil.copytree(REFUND, course.workspace, dirs_exist_ok=True)
    return load_goal(course.workspace / "goal.toml", {}, os.environ)


def ledger(course: Course) -> str:
    return (course.workspace / "ledger.csv").read_text()


async def test_the_payment_waits_and_the_state_says_on_what_evidence(
    course: Course, refund: Goal, measured: Measured
) -> None:
    await course.drive(refund, ends="blocked/approval_required")
    state = course.state
    assert (state.goal.status, state.memory.stop_reason) == (
        "waiting_for_approval",
        "approval_required",
    )
    assert state.goal.risk_class == "high"
    done = ("order_loaded", "delivery_status_loaded", "policy_referenced", "recommend")
    assert state.memory.completed_steps == ("baseline", *done)
    assert [state.memory.step_evidence[step] for step in done] == [
        "o2",
        "o2",
        "o3",
        "o6",
    ]
    assert state.memory.current_step == "refund_issued"
    (waiting,) = state.waiting
    assert (waiting.kind, waiting.action) == (
        "shell",
        "python3 refund.py issue O-104 189.00",
    )
    assert ledger(course) == HEADING
    measured(course)


async def test_an_approved_payment_is_made_once_and_the_result_waits_for_a_person_too(
    course: Course, refund: Goal, measured: Measured
) -> None:
    await course.drive(refund, ends="blocked/approval_required")
    before = course.state
    decide_approval(course.run_folder, "approved")
    await course.resume(ends="blocked/approval_required")
    assert ledger(course) == PAID
    assert (
        course.state.memory.evidence_refs[: len(before.memory.evidence_refs)]
        == before.memory.evidence_refs
    )
    assert [(item.kind, item.decision) for item in course.state.approvals] == [
        ("shell", "approved"),
        ("complete", None),
    ]
    decide_approval(course.run_folder, "approved")
    outcome = await course.resume(ends="complete")
    assert ledger(course) == PAID
    assert outcome.verdict is not None
    assert {row.stale for row in outcome.evidence} == {""}
    assert course.state.memory.step_evidence["refund_issued"] == "o8"
    assert course.state.total.estimated_tokens == 0, (
        "no model was called while the run waited"
    )
    measured(course)


RECOMMENDED = json.dumps(
    {
        "order": "order:O-104",
        "delivery": "delivery:D-88",
        "policy": "policy:refunds:v2026-06",
        "decision": "refund",
        "amount": "189.00",
    }
)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"recommendation.json": RECOMMENDED, "ledger.csv": PAID}, "policy gate: ok"),
        (
            {
                "recommendation.json": RECOMMENDED,
                "ledger.csv": PAID,
                "policy.json": None,
            },
            "there is no policy.json",
        ),
        ({"ledger.csv": PAID}, "there is no recommendation.json"),
        ({"recommendation.json": RECOMMENDED}, "the ledger holds []"),
        (
            {"recommendation.json": RECOMMENDED, "ledger.csv": PAID + "O-104,189.00\n"},
            "the ledger holds ['O-104",
        ),
        (
            {
                "recommendation.json": RECOMMENDED.replace("v2026-06", "v2025-01"),
                "ledger.csv": PAID,
            },
            "policy is",
        ),
    ],
)
def test_the_policy_gate(
    tmp_path: Path, files: dict[str, str | None], said: str
) -> None:
    folder = tmp_path / "refund"
    shutil.copytree(REFUND, folder)
    for name, content in files.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(content)
    command = [sys.executable, "check.py"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.startswith(said), done.returncode) == (
        True,
        int(said != "policy gate: ok"),
    ), done


@pytest.mark.parametrize(
    ("recommendation", "paid", "call", "said"),
    [
        (RECOMMENDED, HEADING, "O-104 189.00", "issued 189.00 for O-104"),
        (None, HEADING, "O-104 189.00", "policy gate: there is no recommendation.json"),
        (
            RECOMMENDED.replace("v2026-06", "v2025-01"),
            HEADING,
            "O-104 189.00",
            "policy gate: policy is",
        ),
        (
            RECOMMENDED,
            HEADING,
            "O-104 200.00",
            "policy gate: 200.00 for O-104 is not what was recommended",
        ),
        (RECOMMENDED, PAID, "O-104 189.00", "policy gate: O-104 is paid already"),
    ],
)
def test_the_payment_itself_asks_the_policy_gate(
    tmp_path: Path, recommendation: str | None, paid: str, call: str, said: str
) -> None:
    folder = tmp_path / "refund"
    shutil.copytree(REFUND, folder)
    if recommendation is not None:
        (folder / "recommendation.json").write_text(recommendation)
    (folder / "ledger.csv").write_text(paid)
    command = [sys.executable, "refund.py", "issue", *call.split()]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout + done.stderr).startswith(said), done
    assert (folder / "ledger.csv").read_text() == (
        PAID if said.startswith("issued") else paid
    )
