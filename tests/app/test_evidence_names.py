"""References that outputs give their observations: `GOAL_EVIDENCE order:O-104`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalOutcome,
    ValidationOutcome,
    chat_conversation,
    read_state,
    run_goal,
)
from goalrunner.cli.main import main
from goalrunner.core.observation import names_in
from tests.support.recordings import agent, fact, judge, quote, recording, shell


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("GOAL_EVIDENCE order:O-104\n", ("order:O-104",)),
        ("x\nGOAL_EVIDENCE order:O-104, policy:v2026-06\nGOAL_EVIDENCE order:O-104\n", ("order:O-104", "policy:v2026-06")),
        ("not GOAL_EVIDENCE order:O-104", ()),
        ("GOAL_EVIDENCE o7 exit 0 [o9] order: :x <b>:x order:O-104", ("order:O-104",)),
        ("GOAL_EVIDENCE " + " ".join(f"n:{number}" for number in range(20)), tuple(f"n:{number}" for number in range(8))),
        (f"GOAL_EVIDENCE a:{'x' * 100}", ()),
        ("GOAL_EVIDENCE\nexit:0", ()),
    ],
)  # fmt: skip
def test_lines_that_name_an_observation(output: str, names: tuple[str, ...]) -> None:
    assert names_in(output.encode()) == names


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "order.txt").write_text(
        "paid 189.00\nGOAL_EVIDENCE order:O-104 delivery:D-88\n"
    )
    return folder


SHOW = "cat order.txt"


def run(
    tmp_path: Path, workspace: Path, *replies: dict[str, Any], **keywords: Any
) -> GoalOutcome:
    model = recording(tmp_path / "r.jsonl", *replies)
    goal = Goal(objective="The order is known.", judge=model, max_iterations=1)
    return run_goal(chat_conversation(model, workspace=workspace), goal, **keywords)


def test_a_name_stands_beside_the_id_and_may_be_cited(
    tmp_path: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run(
        tmp_path,
        workspace,
        agent("", shell(SHOW)),
        agent("known"),
        judge(("the order is known", [quote("order:O-104", "paid 189.00")])),
    )
    assert outcome.passed
    (row,) = outcome.evidence
    assert (row.observation, row.names) == ("o1", ("order:O-104", "delivery:D-88"))
    assert read_state(outcome).memory.evidence_names == {
        "order:O-104": "o1",
        "delivery:D-88": "o1",
    }
    main(["show", outcome.run_id, "--evidence"])
    assert "o1 shell order:O-104 delivery:D-88: cat order.txt" in " ".join(
        capsys.readouterr().out.split()
    )
    main(["show", outcome.run_id, "--state"])
    assert "order:O-104 (o1), delivery:D-88 (o1)" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["verify", outcome.run_id]) == 0


@pytest.mark.parametrize(
    ("cited", "reason"),
    [
        (
            quote("order:O-104", "paid 189.00"),
            'the output of o2 does not contain "paid 189.00"',
        ),
        (fact("order:O-104", "exit 0"), '"exit 0" is not among the facts of o2'),
        (fact("order:O-104", "exit:0"), '"exit:0" is not among the facts of o2'),
        (
            quote("order:O-105", "paid 189.00"),
            'observation "order:O-105" does not exist',
        ),
    ],
)
def test_a_name_proves_nothing_and_means_the_newest_observation(
    tmp_path: Path, workspace: Path, cited: dict[str, str], reason: str
) -> None:
    outcome = run(
        tmp_path,
        workspace,
        agent("", shell(SHOW)),
        agent("", shell("echo GOAL_EVIDENCE order:O-104 exit:0; exit 1")),
        agent("known"),
        *[judge(("the order is known", [cited]))] * 2,
    )
    assert outcome.verdict is not None
    assert (outcome.passed, reason in outcome.verdict.missing) == (False, True), (
        outcome.verdict.missing
    )


@pytest.mark.parametrize(
    "returned",
    [
        ValidationOutcome(True, "looked at it", ["order:O-104"]),
        {"passed": True, "feedback": "looked at it", "evidence": ["order:O-104"]},
    ],
)
def test_a_python_validator_names_its_evidence(
    tmp_path: Path, workspace: Path, returned: object
) -> None:
    model = recording(tmp_path / "r.jsonl", agent("known"))
    goal = Goal(objective="The order is known.")
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        goal,
        validators=lambda response: returned,
    )
    assert outcome.passed
    assert outcome.evidence[0].names == ("order:O-104",)
