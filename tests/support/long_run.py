"""The folder of a long run, written without running it: rounds with tool calls, validators, usage, verdicts and snapshots."""

from __future__ import annotations

import asyncio
from pathlib import Path

from goalrunner.core import events
from goalrunner.core.events import Event
from goalrunner.core.evidence_index import evidence_of
from goalrunner.core.observation import ArtifactRef, DiffStat, Observation, Snapshot
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    ValidatorResult,
)
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import encode, link
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.store import SnapshotStore
from tests.support.told_run import created, numbered, started

CALLS = 15
"""Tool calls of each round; a round has 50 events."""
OUTPUT = "".join(
    f"{number:4}  the same line of output, more or less, {'.' * 40}\n"
    for number in range(200)
)


def long_run(root: Path, home: Path, rounds: int) -> RunFolder:
    """Write a run whose rounds each print 200 lines per command and change three files; it ends capped."""
    folder = RunFolder.create(home, "k3f9-make-parse")
    artifacts = ArtifactStore(folder.artifacts, Redactor({}))
    workspace = root / "work"
    workspace.mkdir()
    opening = started()
    snapshots = asyncio.run(_snapshots(workspace, home, rounds))
    happened: list[Event] = [
        created(max_iterations=rounds, timeout=20_000),
        opening.model_copy(update={"workspace": str(workspace)}),
        events.SnapshotTaken(snapshot=snapshots[0], moment="start"),
    ]
    for number in range(1, rounds + 1):
        happened += _round(number, rounds, snapshots[number], artifacts)
    happened.append(
        events.RunEnded(
            stop_reason=StopReason.MAX_ITERATIONS,
            message=f"not complete after {rounds} rounds",
        )
    )
    records = numbered(*happened)
    lines = [b""]
    for record in records:
        lines.append(
            encode(
                record.model_copy(update={"p": link(lines[-1])}).model_dump(
                    mode="python"
                )
            )
        )
    folder.events.write_bytes(b"\n".join(lines[1:]) + b"\n")
    state, rows = evidence_of(records)
    assert state
    outcome = outcome_of(state, str(folder.path)).model_copy(update={"evidence": rows})
    folder.outcome.write_text(outcome.model_dump_json())
    folder.transcript.write_text("")
    return folder


async def _snapshots(workspace: Path, home: Path, rounds: int) -> list[Snapshot]:
    store = SnapshotStore(workspace, home)
    found = [await store.snapshot()]
    for number in range(1, rounds + 1):
        for name in range(3):
            lines = (
                f"def step_{line}(value: int) -> int:\n    return value + {number * line}\n"
                for line in range(40)
            )
            (workspace / f"module_{name}.py").write_text("".join(lines))
        found.append(await store.snapshot())
    store.close()
    return found


def _round(
    number: int, rounds: int, snapshot: Snapshot, artifacts: ArtifactStore
) -> list[Event]:
    first = (number - 1) * (CALLS + 1) + 1
    happened: list[Event] = [
        events.RoundStarted(round=number, prompt="first" if number == 1 else "retry")
    ]
    for call in range(CALLS):
        output = artifacts.put(f"round {number}, call {call}\n{OUTPUT}".encode())
        happened += _call(f"o{first + call}", number, output)
    happened.append(
        events.RoundFinished(
            round=number,
            steps=CALLS,
            snapshot=snapshot,
            changes=DiffStat(files=3, added=120, removed=120),
        )
    )
    check = f"o{first + CALLS}"
    failed = rounds - number
    result = ValidatorResult(
        name="tests", passed=failed == 0, reason="passed" if failed == 0 else "red", command="pytest -q", exit_code=1,
        duration=2.5, summary=f"{failed} failed, {number} passed", tests_run=rounds, tests_failed=failed, observation=check,
    )  # fmt: skip
    seen = Observation(
        id=check, source="validator tests", facts=("exit 1",), command="pytest -q", round=number,
        output=artifacts.put(f"{OUTPUT}{result.summary}\n".encode()), after=snapshot.id,
    )  # fmt: skip
    verdict = GoalVerdict(
        score=round(number / rounds * 0.9, 2), complete=False, missing="not all of the tests pass",
        criteria=(CriterionVerdict(criterion="the tests pass", satisfied=False, missing="some fail",
                                   evidence=(Citation(observation=check, quote=result.summary),)),),
    )  # fmt: skip
    judged = Usage(input_tokens=5_000, output_tokens=100, cost_usd=0.002, calls=1)
    return [
        *happened,
        events.ValidatorsFinished(
            round=number, results=(result,), observations=(seen,)
        ),
        events.AuditStarted(round=number),
        events.UsageRecorded(account="judge", usage=judged),
        events.VerdictRecorded(round=number, verdict=verdict, citations_checked=1),
    ]


def _call(identifier: str, number: int, output: ArtifactRef) -> list[Event]:
    observation = Observation(
        id=identifier, source="shell", facts=("exit 0",), command=f"cat notes.txt | sort -n  # {identifier}",
        round=number, output=output,
    )  # fmt: skip
    return [
        events.UsageRecorded(account="agent", usage=Usage(input_tokens=900, output_tokens=90, cost_usd=0.001, calls=1)),
        events.ToolCalled(tool_call_id=f"call_{identifier}", tool="shell", summary=observation.command),
        events.ToolResultRecorded(
            tool_call_id=f"call_{identifier}", evidence_ref=identifier, observation=observation, duration=0.2,
            summary="exit 0",
        ),
    ]  # fmt: skip
