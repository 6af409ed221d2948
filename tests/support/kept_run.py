"""The folder of a run that is over, written without running it: a goal, one tool result, and the end."""

from __future__ import annotations

from pathlib import Path

from goalrunner.core import events
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import StopReason
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

OUTPUT = "parse() returns an empty Document\n"
SAID = "all tests pass, believe me\n"


def kept_run(
    home: Path,
    *,
    name: str = "k3f9-make-parse",
    owner: str = "parsers",
    memory: str = 'promote = ["fact"]',
) -> RunFolder:
    """o1 is a command's result, o2 of a plan, o3 of a hidden validator, e4 an event. `memory` is the goal's table."""
    folder = RunFolder.create(home, name)
    folder.write_text(
        folder.goal_file,
        f'objective = "x"\nvalidator = "true"\nowner = "{owner}"\n[memory]\n{memory}\n',
    )
    redactor = Redactor({})
    artifacts = ArtifactStore(folder.artifacts, redactor)
    record = events.GoalRecord(
        goal_id=name,
        run_id=name,
        owner=owner,
        description="x",
        created_at="2026-11-21T10:00:00+00:00",
        updated_at="",
    )
    with EventLog(folder.events, SystemClock(), redactor) as log:
        log.append(
            events.GoalCreated(goal=record, plan=events.RunRules(validators=("true",)))
        )
        log.append(events.RunStarted(workspace=str(home), version="0"))
        log.append(events.RoundStarted(round=1, prompt="first"))
        for number, (source, text) in enumerate(
            (("shell", OUTPUT), ("plan", SAID)), start=1
        ):
            observation = Observation(
                id=f"o{number}",
                source=source,
                round=1,
                facts=("exit 0",),
                output=artifacts.put(text.encode()),
            )
            log.append(
                events.ToolResultRecorded(
                    tool_call_id=f"c{number}",
                    evidence_ref=observation.id,
                    observation=observation,
                )
            )
        secret = Observation(
            id="o3",
            source="validator secret",
            round=1,
            output=artifacts.put(b"the hidden case is ''\n"),
        )
        result = ValidatorResult(
            name="secret", passed=True, hidden=True, observation="o3"
        )
        log.append(
            events.ValidatorsFinished(round=1, results=(result,), concealed=(secret,))
        )
        log.append(
            events.RunEnded(
                stop_reason=StopReason.SATISFIED, message="validators of round 1"
            )
        )
    return folder
