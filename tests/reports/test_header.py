from __future__ import annotations

from textwrap import dedent

from goalrunner.core import events
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, Budget, JudgeConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason
from goalrunner.reports.layout import laid_out
from goalrunner.reports.narrative import resolved_lines
from goalrunner.reports.show import show_text
from goalrunner.reports.status import closing_lines
from tests.support import told_run
from tests.support.told_run import MISSING, numbered

REFUSAL = 'o1 does not hold "44 passed"'


def test_a_proof_that_did_not_hold_is_called_so_and_said_once() -> None:
    verdict = told_run.red_verdict().model_copy(update={"score": 1.0})
    told = "".join(
        show_text(
            numbered(
                told_run.created(),
                told_run.started(),
                events.RoundStarted(round=1, prompt="first"),
                events.RoundFinished(round=1, reason="answered", steps=1),
                events.VerdictRecorded(round=1, verdict=verdict, refusals=(REFUSAL,)),
                events.RunEnded(stop_reason=StopReason.MAX_ITERATIONS, message="not complete after 1 round"),
            ),
            folder="/r",
        )
    )
    assert told.splitlines()[4:] == [
        f"round 1    ✗ judge   1.00, citation invalid     missing: {MISSING}",
        "folder     /r",
        "capped     1 round · 6.0 s",
        "           not complete after 1 round",
        "continue   goal resume k3f9-make-parse --max-iterations 20",
        "changes    goal diff k3f9-make-parse",
        "evidence   goal show k3f9-make-parse --evidence",
    ]


def closing(status: GoalStatus, *labels: str, differing: tuple[str, ...] = ()) -> list[str]:
    """The last lines of a run with these labels."""
    outcome = GoalOutcome(
        status=status,
        iterations=1,
        run_id="k3f9-make-parse",
        objective="x",
        labels=labels,
        differing=differing,
    )
    return laid_out(closing_lines(outcome)).splitlines()


def test_every_label_is_named_at_the_end() -> None:
    lines = closing(GoalStatus.COMPLETE, "flaky: tests", "needs ignored files: build")
    assert [line for line in lines if line.startswith("note")] == [
        "note       flaky: tests",
        "note       needs ignored files: build",
    ]
    assert not [line for line in lines if "goal restore" in line]


def test_files_that_were_not_verified_can_be_restored_with_the_last_line() -> None:
    paths = ("tests/test_a.py", "conf test.py")
    lines = closing(GoalStatus.COMPLETE, "not verified: tests/test_a.py, conf test.py", differing=paths)
    assert "           goal restore k3f9-make-parse 0 --path tests/test_a.py --path 'conf test.py'" in lines


def test_at_most_five_paths_are_named_in_the_command() -> None:
    paths = tuple(f"t{number}.py" for number in range(9))
    (line,) = [
        line for line in closing(GoalStatus.COMPLETE, "not verified: x", differing=paths) if "goal restore" in line
    ]
    assert line.count("--path") == 5


def test_a_run_that_is_not_complete_restores_nothing() -> None:
    lines = closing(GoalStatus.CAPPED, "not verified: t.py", differing=("t.py",))
    assert not [line for line in lines if "goal restore" in line]


def test_a_pattern_that_matches_nothing_is_repeated_at_the_end_of_a_run_that_is_not_complete() -> None:
    note = 'editable: "scr/**" matches no file; did you mean "src/**"?'
    state = told_run.state_of().model_copy(update={"notes": (note, "another note")})

    def told(status: GoalStatus) -> str:
        outcome = GoalOutcome(status=status, iterations=1, run_id="r", objective="x")
        return laid_out(closing_lines(outcome, state))

    assert f"note       {note}\n" in told(GoalStatus.CAPPED)
    assert "another" not in told(GoalStatus.CAPPED)
    assert "note" not in told(GoalStatus.COMPLETE)


def test_a_goal_is_printed_with_every_default_filled_in() -> None:
    goal = Goal(
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
    assert laid_out(resolved_lines(goal, place="git, clean")) == dedent("""\
        goal       Make parse() accept empty input.
        criteria   pytest passes
                   parse('') returns an empty Document
        keeps      keep the signature
        workspace  /src/parser · git, clean
        agent      openai/gpt-5
        judge      openai/gpt-5 · at least 0.80
        limits     10 rounds · 30 min · 200,000 tokens · $2.00
        checks     pytest: pytest -q · 10 min
                   style: python checks:style · no timeout
        dry run    Nothing was run or written.
        """)


def test_what_must_be_said_aloud_is_said() -> None:
    goal = Goal(
        objective="x",
        max_iterations=None,
        agent=AgentConfig(model="scripted//w/words.jsonl"),
        workspace=WorkspaceConfig(path="/w"),
        validators=(ValidatorSpec(run="true"),),
    )
    assert laid_out(resolved_lines(goal)).splitlines()[3:] == [
        "judge      none; the validators decide",
        "limits     no round limit · no timeout · no budget",
        "checks     true · 10 min",
        "warning    no limit stops this run: no round limit, no timeout, no budget",
        (
            "recorded   replies of agent are played from a recording; tools and checks run for real; "
            "for a real model use --model NAME"
        ),
        "dry run    Nothing was run or written.",
    ]
