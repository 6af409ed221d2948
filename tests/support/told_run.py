"""A made-up run as records, for tests of what people are shown."""

from __future__ import annotations

from goalrunner.core import events
from goalrunner.core.events import Event, Record
from goalrunner.core.fold import apply
from goalrunner.core.observation import ArtifactRef, Observation, TranscriptRef
from goalrunner.core.outcome import (
    GoalAttempt,
    GoalOutcome,
    GoalStatus,
    StopReason,
    Usage,
)
from goalrunner.core.run_state import RunState
from goalrunner.core.verdict import CriterionVerdict, GoalVerdict, ValidatorResult
from goalrunner.reports.progress import Progress

TIME = "2026-11-21T10:00:00+00:00"
MISSING = "no evidence that parse('') returns an empty Document"
HASH = "0" * 64


def numbered(*happened: Event, after: int = 0) -> list[Record]:
    """Events as records, one second after the other."""
    return [
        Record(seq=number, at=TIME, elapsed=float(number), event=event)
        for number, event in enumerate(happened, start=after + 1)
    ]


def feed(progress: Progress, *happened: Event) -> None:
    """Show what happened next in a run; before it, the two first events if nothing was shown yet."""
    state = progress.narrative.state
    if state is None and not isinstance(happened[0], events.GoalCreated):
        happened = (created(), started(), *happened)
    for record in numbered(*happened, after=state.memory.version if state else 0):
        progress.on_record(record)


def state_of(*happened: Event) -> RunState:
    """The state after the two first events and these."""
    state: RunState | None = None
    for record in numbered(created(), started(), *happened):
        state = apply(state, record)
    assert state is not None
    return state


def created(
    objective: str = "Make parse() accept empty input.",
    *,
    validators: tuple[str, ...] = ("tests",),
    max_iterations: int | None = 10,
    timeout: float | None = 1_800,
) -> events.GoalCreated:
    """The first event."""
    goal = events.GoalRecord(
        goal_id="g1",
        run_id="k3f9-make-parse",
        description=objective,
        created_at=TIME,
        updated_at=TIME,
    )
    plan = events.RunRules(
        max_iterations=max_iterations,
        timeout=timeout,
        validators=validators,
        has_judge=True,
    )
    return events.GoalCreated(goal=goal, plan=plan)


def started(
    agent: str = "anthropic/claude-sonnet-4-5", judge: str = "openai/gpt-5-mini"
) -> events.RunStarted:
    """The second event; an empty judge is none."""
    models = {"agent": agent, "judge": judge} if judge else {"agent": agent}
    return events.RunStarted(workspace="/src/parser", models=models, version="0.1.0")


def tool_result(
    tool: str,
    command: str,
    summary: str,
    duration: float = 0.0,
    facts: tuple[str, ...] = (),
    number: int = 1,
) -> events.ToolResultRecorded:
    """A tool call that ended."""
    observation = Observation(
        id=f"o{number}",
        source=tool,
        facts=facts,
        command=command,
        round=1,
        output=ArtifactRef(sha256=HASH, size=0),
    )
    return events.ToolResultRecorded(
        tool_call_id=f"call_{number}",
        evidence_ref=observation.id,
        observation=observation,
        duration=duration,
        summary=summary,
    )


def checked(
    passed: bool, summary: str, *, name: str = "tests", number: int = 1
) -> events.ValidatorsFinished:
    """One validator's run."""
    result = ValidatorResult(
        name=name,
        passed=passed,
        reason="passed" if passed else "red",
        command="pytest -q",
        exit_code=0 if passed else 1,
        duration=1.1,
        summary=summary,
        feedback="" if passed else summary,
        observation=f"o{number}",
    )
    return events.ValidatorsFinished(round=1, results=(result,))


def message(role: str = "assistant") -> events.MessageRecorded:
    """A chat message."""
    ref = TranscriptRef(offset=0, length=1, sha256=HASH)
    return events.MessageRecorded.model_validate({"role": role, "text": ref})


def red_verdict(missing: str = MISSING) -> GoalVerdict:
    """Not complete."""
    criteria = (
        CriterionVerdict(criterion="parse('') works", satisfied=False, missing=missing),
    )
    return GoalVerdict(score=0.62, complete=False, missing=missing, criteria=criteria)


def green_verdict() -> GoalVerdict:
    """Complete."""
    return GoalVerdict(
        score=1.0,
        complete=True,
        criteria=(
            CriterionVerdict(criterion="pytest passes", satisfied=True),
            CriterionVerdict(
                criterion="parse('') returns an empty Document", satisfied=True
            ),
        ),
    )


def two_rounds() -> list[Record]:
    """The run of the picture: red by the judge, then green."""
    return numbered(
        created(),
        started(),
        events.RoundStarted(round=1, prompt="first"),
        events.UsageRecorded(
            account="agent",
            usage=Usage(
                input_tokens=20_000, output_tokens=1_000, cost_usd=0.1, calls=1
            ),
        ),
        message(),
        events.ToolCalled(
            tool_call_id="call_1",
            tool="shell",
            summary="pytest -q tests/test_parser.py",
        ),
        tool_result(
            "shell", "pytest -q tests/test_parser.py", "exit 1", 0.9, ("exit 1",)
        ),
        events.ToolCalled(
            tool_call_id="call_2", tool="edit_file", summary="src/parser.py"
        ),
        tool_result("edit_file", "src/parser.py", "+4 −1", 0.001, ("replaced",), 2),
        events.RoundFinished(round=1, steps=3),
        events.StepStarted(step_id="validate-1", description="run 1 validator"),
        checked(True, "43 passed", number=3),
        events.AuditStarted(round=1),
        events.VerdictRecorded(round=1, verdict=red_verdict(), citations_checked=2),
        events.RoundStarted(round=2, prompt="retry"),
        tool_result(
            "shell",
            'python -c "import parser; parser.parse(str())"',
            "exit 0",
            0.1,
            ("exit 0",),
            4,
        ),
        events.RoundFinished(round=2, steps=2),
        checked(True, "43 passed", number=5),
        events.AuditStarted(round=2),
        events.UsageRecorded(
            account="judge",
            usage=Usage(
                input_tokens=20_000, output_tokens=210, cost_usd=0.0126, calls=1
            ),
        ),
        events.VerdictRecorded(round=2, verdict=green_verdict(), citations_checked=3),
        events.RunEnded(stop_reason=StopReason.SATISFIED, message="verdict of round 2"),
    )


def outcome(
    status: GoalStatus = GoalStatus.COMPLETE,
    reason: StopReason | None = StopReason.SATISFIED,
    *,
    text: str = "",
    verdict: GoalVerdict | None = None,
    signal: int | None = None,
) -> GoalOutcome:
    """The outcome of that run, or of one that went otherwise."""
    return GoalOutcome(
        run_id="k3f9-make-parse",
        objective="Make parse() accept empty input.",
        status=status,
        stop_reason=reason,
        message=text,
        iterations=2,
        verdict=verdict or green_verdict(),
        attempts=(GoalAttempt(attempt=1, passed=False, feedback=MISSING, score=0.62),),
        usage={
            "agent": Usage(
                input_tokens=40_000, output_tokens=1_000, cost_usd=0.1974, calls=4
            ),
            "judge": Usage(
                input_tokens=200, output_tokens=10, cost_usd=0.0126, calls=2
            ),
        },
        limits={
            "max_iterations": 10,
            "timeout": 1_800,
            "tokens": None,
            "cost_usd": None,
        },
        models={"agent": "anthropic/claude-sonnet-4-5", "judge": "openai/gpt-5-mini"},
        workspace="/src/parser",
        started_at=TIME,
        finished_at=TIME,
        duration=192.4,
        run_path="/state/goal/runs/k3f9-make-parse",
        signal=signal,
    )


def summary(**changes: object) -> dict[str, object]:
    """What summary.json says of that run."""
    return {
        "run_id": "k3f9-make-parse",
        "objective": "Make parse() accept empty input.",
        "status": "complete",
        "stop_reason": "satisfied",
        "message": "",
        "iterations": 2,
        "max_iterations": 10,
        "score": 1.0,
        "complete": True,
        "missing": "",
        "criteria_satisfied": 2,
        "criteria_total": 2,
        "agent_model": "anthropic/claude-sonnet-4-5",
        "judge_model": "openai/gpt-5-mini",
        "workspace": "/src/parser",
        "started_at": TIME,
        "updated_at": TIME,
        "finished_at": TIME,
        "duration": 192.4,
        "tokens": 41_210,
        "cost_usd": 0.21,
        "judge_tokens": 210,
        "judge_cost_usd": 0.0126,
        "limits": {
            "max_iterations": 10,
            "timeout": 1_800,
            "tokens": None,
            "cost_usd": None,
        },
        "exit_code": 0,
        "pid": 1,
        "validators": [{"name": "tests", "passed": True, "summary": "43 passed"}],
        "current_step": "",
        "completed_steps": [],
        "pending_steps": [],
        "open_questions": [],
        **changes,
    }
