from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from goalrunner.core import events
from goalrunner.core.activity import (
    AgentSilent,
    CommandEnded,
    CommandStarted,
    RetryScheduled,
)
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.verdict import ValidatorResult
from goalrunner.reports.current import Current, activity_text, output_tail
from goalrunner.reports.narrative import Narrative
from tests.support import told_run
from tests.support.told_run import numbered


class Clock:
    """A monotonic clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def following(clock: Clock, *happened: events.Event) -> Current:
    narrative = Narrative()
    current = Current(narrative, clock)
    for record in numbered(*happened):
        narrative.lines_of(record)
        current.follow(record)
    return current


def waiting(clock: Clock, *more: events.Event) -> Current:
    return following(
        clock,
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=2, prompt="retry"),
        *more,
    )


def shown(current: Current) -> tuple[str, str, str]:
    [item] = current.running()
    return item.step.name, item.step.subject, item.step.remark


def test_a_model_that_is_waited_for_is_shown_with_step_tokens_and_time() -> None:
    clock = Clock()
    usage = events.UsageRecorded(
        account="agent",
        usage=Usage(input_tokens=12_000, output_tokens=400, cost_usd=0.1),
    )
    current = waiting(clock, usage, told_run.message(), told_run.message())
    clock.now += 28.9
    [item] = current.running()
    assert item.step.time == "28.9 s"
    assert shown(current) == ("agent", "waiting for the model", "step 3, 12,400 tokens")
    assert (
        current.totals() == "round 2 of 10 · 34.9 s of 30 min · 12,400 tokens · $0.10"
    )


def test_a_resumed_round_shows_the_agent_once_it_has_its_prompt() -> None:
    prompt = told_run.message("user")
    resumed = events.RunResumed(plan=told_run.created().plan, version="0.1.0")
    assert shown(waiting(Clock(), resumed))[0] == "start"
    assert shown(waiting(Clock(), resumed, prompt))[0] == "agent"


def test_a_resumed_turn_says_that_it_continues_until_the_agent_is_heard() -> None:
    clock = Clock()
    resumed = events.RunResumed(plan=told_run.created().plan, version="0.1.0")
    current = waiting(clock, told_run.message("user"), resumed)
    clock.now += 60
    assert shown(current) == ("agent", "continuing round 2", "waiting for the model")
    assert current.running()[0].step.time == "1 min"
    heard = waiting(clock, told_run.message("user"), resumed, told_run.message())
    assert shown(heard)[1] == "waiting for the model"


def test_a_run_that_waits_for_a_person_shows_the_command_that_decides_and_its_time_stands() -> (
    None
):
    clock = Clock()
    requested = events.ApprovalRequested(
        approval_id="a1", kind="shell", action="make", rule="because"
    )
    current = waiting(clock, requested)
    before = current.totals()
    clock.now += 60
    run = told_run.created().goal.run_id
    assert shown(current) == ("waiting", f"for you: goal approve {run} a1", "")
    assert current.running()[0].step.time == "1 min"
    assert (current.totals(), list(current.beats())) == (before, [])
    decided = waiting(
        clock,
        requested,
        events.ApprovalRecorded(approval_id="a1", decision="approved", by="ann@desk"),
    )
    assert shown(decided)[0] == "agent"
    question = waiting(clock, events.QuestionOpened(question="Which colour?"))
    assert shown(question) == ("waiting", f'for you: goal answer {run} "..."', "")


def test_the_time_between_the_end_of_a_run_and_its_resume_is_not_active() -> None:
    clock = Clock()
    ended = events.RunEnded(stop_reason=StopReason.INTERRUPTED, message="interrupted")
    current = waiting(clock, ended)
    before = current.totals()
    clock.now += 60
    assert (current.totals(), current.running()) == (before, [])


def test_an_external_agent_that_goes_on_after_a_resume_is_not_said_to_ask_its_model() -> (
    None
):
    resumed = events.RunResumed(plan=told_run.created().plan, version="0.1.0")
    program = told_run.started().model_copy(update={"agent_command": "claude -p"})
    current = following(
        Clock(),
        told_run.created(),
        program,
        events.RoundStarted(round=1, prompt="first"),
        told_run.message("user"),
        resumed,
    )
    assert shown(current) == ("agent", "continuing round 1", "")


def test_the_activity_of_a_run_is_one_line(tmp_path: Path) -> None:
    called = events.ToolCalled(tool_call_id="c", tool="shell", summary="make")
    begun = events.RoundStarted(round=1, prompt="first")
    records = numbered(told_run.created(), told_run.started(), begun, called)
    now = datetime.now(UTC).isoformat()
    records[-1] = records[-1].model_copy(update={"at": now})
    text = activity_text(records, tmp_path / "scratch")
    assert text.startswith("round-1 · shell make · ")
    assert activity_text(records[:1], tmp_path / "scratch") == ""


def test_text_that_streams_is_the_tail() -> None:
    current = waiting(Clock())
    current.on_text("I look at\nthe parser")
    assert shown(current)[1] == "answering"
    assert current.running()[0].lines == ["I look at", "the parser"]


def test_a_retry_counts_down_and_ends_with_the_answer() -> None:
    clock = Clock()
    current = waiting(clock)
    current.on_activity(RetryScheduled("429 rate limit", 12.0, 1, 5))
    assert shown(current) == ("agent", "429 rate limit", "next try in 12 s (1/5)")
    clock.now += 7.5
    assert shown(current)[2] == "next try in 5 s (1/5)"
    clock.now += 10
    assert shown(current)[2] == "trying again (1/5)"
    current.on_text("Now")
    assert shown(current)[1] == "answering"


def test_a_running_validator_has_its_progress_its_last_duration_and_the_end_of_its_output(
    tmp_path: Path,
) -> None:
    clock, output = Clock(), tmp_path / "out"
    result = ValidatorResult(
        name="tests", passed=False, reason="red", command="pytest -q", duration=182.0
    )
    baseline = events.BaselineTaken(standing="red", results=(result,))
    current = following(clock, told_run.created(), told_run.started(), baseline)
    started = CommandStarted("tests", "pytest -q", output)
    current.on_activity(started)
    assert shown(current) == ("tests", "pytest -q", "last run 3 min 2 s")
    output.write_text("....F [ 42%]\nwarming up\n")
    assert shown(current) == ("tests", "pytest -q", "42 %, last run 3 min 2 s")
    assert current.running()[0].lines == ["....F [ 42%]", "warming up"]
    current.on_activity(CommandEnded(started))
    assert current.running() == []


def test_an_external_agent_is_working_and_nothing_is_claimed_about_its_model() -> None:
    started = told_run.started().model_copy(update={"agent_command": "claude 2.1.330"})
    begun = (events.RoundStarted(round=1, prompt="first"), told_run.message("user"))
    current = following(Clock(), told_run.created(), started, *begun)
    assert shown(current) == ("agent", "working", "")
    assert current.totals().endswith("tokens unknown · cost unknown")


def test_the_silence_of_an_agent_is_shown_until_it_ends() -> None:
    current = waiting(Clock())
    current.on_activity(AgentSilent(720.0, 900.0))
    assert shown(current) == (
        "agent",
        "no output for 12 min",
        "the turn ends after 15 min",
    )
    current.on_activity(AgentSilent(0.0, 900.0))
    assert shown(current)[1] == "waiting for the model"


def test_only_the_end_of_a_large_output_is_read_and_a_progress_bar_is_its_last_state(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out"
    path.write_bytes(
        b"".join(b"line %d\n" % number for number in range(10_000))
        + b" 10 %\r 20 %\r 30 %"
    )
    lines = output_tail(path)
    assert lines[-2:] == ["line 9999", " 30 %"]
    assert len(lines) < 2_000


def test_output_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    assert output_tail(tmp_path / "none") == []


def test_a_run_of_another_process_is_shown_with_the_end_of_its_commands_output(
    tmp_path: Path,
) -> None:
    clock, scratch = Clock(), tmp_path / "scratch"
    scratch.mkdir()
    called = events.ToolCalled(tool_call_id="c", tool="shell", summary="make")
    begun = (
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
    )
    narrative = Narrative()
    current = Current(narrative, clock)
    a_minute_ago = (datetime.now(UTC) - timedelta(seconds=60)).isoformat()
    for record in numbered(*begun, called, events.UserSaid(text="be quick")):
        narrative.lines_of(record.model_copy(update={"at": a_minute_ago}))
        current.follow(record)
    (scratch / f"{'0' * 16}.out").write_text("compiling\n")
    (scratch / f"{'0' * 16}.agent.out").write_text("{}\n")
    current.follow_files(scratch)
    (running,) = current.running()
    assert (running.step.subject, running.lines, round(running.seconds)) == (
        "make",
        ["compiling"],
        61,  # the last event was recorded a second after the step began
    )
    (scratch / f"{'0' * 16}.out").unlink()
    current.follow_files(scratch)
    assert [item.lines for item in current.running()] == [[]]
