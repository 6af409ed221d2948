from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from goalrunner.app.run_options import Callback
from goalrunner.cli.drive import is_interactive, open_progress
from goalrunner.core import events
from goalrunner.core.agent_ports import TextObserver
from goalrunner.core.events import Event, Record
from goalrunner.core.fold import apply
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.core.verdict import GoalVerdict
from goalrunner.reports.live import LiveProgress
from goalrunner.reports.progress import Progress
from tests.support import told_run
from tests.support.told_run import feed, numbered, outcome


def told(records: Iterable[Record]) -> str:
    stream = io.StringIO()
    progress = Progress(stream, place=lambda _: "git, clean")
    for record in records:
        progress.on_record(record)
    return stream.getvalue()


def lines_of(*happened: Event) -> list[str]:
    """The lines of these events, without those of the start of the run if it is not among them."""
    stream = io.StringIO()
    progress = Progress(stream, place=lambda _: "git, clean")
    if not isinstance(happened[0], events.GoalCreated):
        feed(progress, told_run.created())
        if not isinstance(happened[0], events.RunStarted):
            feed(progress, told_run.started())
    before = len(stream.getvalue())
    feed(progress, *happened)
    return stream.getvalue()[before:].splitlines()


def test_a_run_is_told_as_the_picture_shows_it() -> None:
    stream = io.StringIO()
    with Progress(stream, place=lambda _: "git, clean") as progress:
        for record in told_run.two_rounds():
            progress.on_record(record)
        progress.finish(outcome())
    assert stream.getvalue() == dedent("""\
        goal       Make parse() accept empty input.
        workspace  /src/parser · git, clean              run    k3f9-make-parse
        agent      anthropic/claude-sonnet-4-5           judge  openai/gpt-5-mini
        limits     10 rounds · 30 min · no budget
        round 1    · shell   pytest -q tests/test_parser.py   0.9 s   exit 1
                   · edit    src/parser.py              +4 −1
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✗ judge   0.62                       missing: no evidence that parse('') returns an empty Document
                   round 1 took 12.0 s · 21,000 tokens · $0.10
        round 2    · shell   python -c "import parser; parser.parse(str())"   0.1 s   exit 0
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✓ judge   1.00                       2 of 2 criteria, 3 citations checked
                   round 2 took 7.0 s · 20,210 tokens · $0.01
        complete   2 rounds · 3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)
                   /state/goal/runs/k3f9-make-parse/outcome.json
        """)


def test_every_line_is_printed_as_it_ends() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.on_record(numbered(told_run.created())[0])
    assert stream.getvalue() == "goal       Make parse() accept empty input.\n"


def test_a_run_without_any_limit_says_so() -> None:
    said = lines_of(told_run.created(max_iterations=None, timeout=None), told_run.started())
    assert said[3:] == [
        "limits     no round limit · no timeout · no budget",
        "warning    no limit stops this run: no round limit, no timeout, no budget",
    ]


@pytest.mark.parametrize(
    ("agent", "judge", "said"),
    [
        (
            "scripted//w/a.jsonl",
            "scripted//w/b.jsonl",
            (
                "replies of agent and judge are played from a recording; tools and checks run for real; "
                "for a real model use --model NAME and --judge NAME"
            ),
        ),
        (
            "openai/gpt-5",
            "scripted//w/b.jsonl",
            "replies of judge are played from a recording; tools and checks run for real; for a real model use --judge NAME",
        ),
    ],
)
def test_recorded_words_are_called_so(agent: str, judge: str, said: str) -> None:
    assert lines_of(told_run.created(), told_run.started(agent, judge))[-1] == f"recorded   {said}"


def test_a_run_without_a_judge_says_who_decides() -> None:
    assert lines_of(told_run.started(judge=""))[1] == (
        "agent      anthropic/claude-sonnet-4-5           judge  none; the validators decide"
    )


def test_what_is_unusual_in_a_round_is_said() -> None:
    fallback = GoalVerdict(score=0.0, complete=False, source="fallback")
    said = lines_of(
        events.RoundStarted(round=1, prompt="first"),
        events.UsageRecorded(account="agent", usage=Usage(calls=1, retries=2)),
        events.RoundFinished(round=1, reason="max_steps", steps=100),
        told_run.checked(False, "2 failed, 41 passed"),
        events.AuditStarted(round=1),
        events.AuditFailed(round=1, kind="parse", detail="score is no number"),
        events.AuditFailed(round=1, kind="transport", detail=""),
        events.AuditFailed(round=1, kind="authentication", detail="401"),
        events.VerdictRecorded(round=1, verdict=fallback),
        events.QuestionOpened(question="Which port?"),
    )
    assert "\n".join(said) == dedent("""\
        round 1    ! agent                              model calls were retried 2 times (rate limit or network)
                   ! agent                              turn ended after 100 model calls; the limit is [agent] max_steps
                   ✗ tests   pytest -q                  1.1 s   2 failed, 41 passed
                   ! judge                              answer could not be read: score is no number
                   ! judge                              judge unavailable
                   ! judge                              the provider rejected the API key: 401
                   ✗ judge   0.00                       not complete: the judge's answers could not be read
                   ? question                           Which port?""")


def test_what_is_only_reported_is_said_to_be_so() -> None:
    def reported(**fields: Any) -> events.ToolResultRecorded:
        item = Observation(id="o1", round=1, command="pytest -q", reported_by="claude", **fields)
        return events.ToolResultRecorded(tool_call_id="1", evidence_ref="o1", observation=item)

    said = lines_of(
        events.RoundStarted(round=1, prompt="first"),
        reported(source="shell", facts=("exit 0",)),
        reported(source="Bash"),
        events.RoundFinished(round=1, left=("sleep",)),
        events.RoundFinished(round=2, left=("a\x1b[31m", *("node" * 20 for _ in range(6)))),
    )
    named = ", ".join(["node" * 9 + "nod…"] * 4)
    assert said == [
        "round 1    · shell   pytest -q                  exit 0, reported",
        "           · Bash    pytest -q                  reported",
        "           ! agent                              processes that it left running were ended: sleep",
        f"           ! agent                              processes that it left running were ended: a, {named} and 2 more",
    ]


def test_the_runners_own_verdict_is_no_second_line() -> None:
    verdict = GoalVerdict(score=0.0, complete=False, missing="tests", source="validators")
    assert lines_of(events.VerdictRecorded(round=1, verdict=verdict)) == []


def test_a_long_validator_name_takes_columns_of_its_command() -> None:
    said = lines_of(
        told_run.created(validators=("integration", "x" * 40)),
        told_run.checked(True, "ok", name="integration"),
        told_run.checked(True, "ok", name="x" * 40),
    )
    assert said[1:] == [
        "           ✓ integration pytest -q              1.1 s   ok",
        "           ✓ xxxxxxxxxxxxxxx… pytest -q         1.1 s   ok",
    ]


def test_what_tools_and_models_say_cannot_reach_the_terminal() -> None:
    evil = "\x1b]0;owned\x07echo \x1b[2J\x1b[31mhi\r\n\u202eknil [bold]x[/bold]"
    said = told(
        numbered(
            told_run.created(f"Do it.\n{evil}"),
            told_run.tool_result("shell", evil, evil, 0.1),
            told_run.checked(False, evil, name="a\x1b[1mb"),
            events.VerdictRecorded(round=1, verdict=told_run.red_verdict(evil)),
        )
    )
    assert said == dedent("""\
        goal       Do it. echo hi knil [bold]x[/bold]
                   · shell   echo hi knil [bold]x[/bold]   0.1 s   echo hi knil [bold]x[/bold]
                   ✗ ab      pytest -q                  1.1 s   echo hi knil [bold]x[/bold]
                   ✗ judge   0.62                       missing: echo hi knil [bold]x[/bold]
        """)


def test_wide_characters_keep_the_columns() -> None:
    said = lines_of(told_run.tool_result("shell", "echo 日本語日本語日本語日本語", "出口 0", 0.1))
    assert said == ["           · shell   echo 日本語日本語日本語日本語   0.1 s   出口 0"]


@pytest.mark.parametrize(
    ("status", "reason", "text", "signal", "said"),
    [
        (
            GoalStatus.CAPPED,
            StopReason.MAX_ITERATIONS,
            "the limit of 2 rounds is reached",
            None,
            ["           the limit of 2 rounds is reached", f"missing    {told_run.MISSING}"],
        ),
        (
            GoalStatus.FAILED,
            StopReason.AUTHENTICATION,
            "openai: the key is wrong\nexport OPENAI_API_KEY=...",
            None,
            [
                "           openai: the key is wrong",
                "           export OPENAI_API_KEY=...",
                f"missing    {told_run.MISSING}",
            ],
        ),
        (
            GoalStatus.CANCELLED,
            StopReason.INTERRUPTED,
            "interrupted by Ctrl-C",
            2,
            ["           interrupted by Ctrl-C", f"missing    {told_run.MISSING}"],
        ),
    ],
)
def test_an_end_without_success_says_why_and_what_to_do(
    status: GoalStatus, reason: StopReason, text: str, signal: int | None, said: list[str]
) -> None:
    stream = io.StringIO()
    ended = outcome(status, reason, text=text, verdict=told_run.red_verdict(), signal=signal)
    progress = Progress(stream)
    feed(progress, events.RoundFinished(round=1, reason="answered", steps=1))
    before = len(stream.getvalue())
    progress.finish(ended, copy="/tmp/out.json")
    more = " --max-iterations 20" if reason is StopReason.MAX_ITERATIONS else ""
    figures = "2 rounds · 3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)"
    assert stream.getvalue()[before:].splitlines() == [
        f"{status.value:<11}{figures}",
        *said,
        "           /state/goal/runs/k3f9-make-parse/outcome.json",
        "           /tmp/out.json",
        f"continue   goal resume k3f9-make-parse{more}",
        "changes    goal diff k3f9-make-parse",
        "evidence   goal show k3f9-make-parse --evidence",
    ]


def test_an_unknown_price_is_never_zero_dollars() -> None:
    ended = outcome()
    usage = {"agent": Usage(input_tokens=90, cost_usd=None, calls=1), "judge": Usage(input_tokens=10, calls=1)}
    stream = io.StringIO()
    Progress(stream).finish(ended.model_copy(update={"usage": usage}))
    assert stream.getvalue().splitlines()[0] == ("complete   2 rounds · 3 min 12 s · 100 tokens · no price")


def test_quiet_prints_the_last_lines_alone() -> None:
    stream = io.StringIO()
    with Progress(stream, quiet=True) as progress:
        for record in told_run.two_rounds():
            progress.on_record(record)
        progress.finish(outcome())
    assert stream.getvalue() == dedent("""\
        complete   2 rounds · 3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)
                   /state/goal/runs/k3f9-make-parse/outcome.json
        """)


def test_quiet_still_warns_of_a_run_that_nothing_stops() -> None:
    stream = io.StringIO()
    progress = Progress(stream, quiet=True)
    for record in numbered(told_run.created(max_iterations=None, timeout=None), told_run.started()):
        progress.on_record(record)
    assert stream.getvalue() == ("warning    no limit stops this run: no round limit, no timeout, no budget\n")


def test_a_reader_that_goes_away_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    # Closing flushes what could not be written; that a reader is gone is no news then.
    stream = os.fdopen(writing, "w", encoding="utf-8")
    progress = Progress(stream)
    for record in told_run.two_rounds():
        progress.on_record(record)
    progress.finish(outcome())
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_closed_stream_does_not_end_the_run() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    stream.close()
    progress.on_record(numbered(told_run.created())[0])
    assert stream.closed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_live_on_a_terminal_alone() -> None:
    assert is_interactive(Terminal(), {"TERM": "xterm-256color"})
    assert not is_interactive(Terminal(), {"TERM": "dumb"})
    assert not is_interactive(io.StringIO(), {"TERM": "xterm-256color"})
    assert isinstance(open_progress(io.StringIO()), Progress)
    assert not isinstance(open_progress(Terminal(), quiet=True), LiveProgress)


def test_a_pipe_loads_neither_typer_nor_litellm(tmp_path: Path) -> None:
    code = dedent("""\
        import sys
        from goalrunner.cli.drive import open_progress
        from tests.support import told_run
        with open_progress(sys.stdout) as progress:
            for record in told_run.two_rounds():
                progress.on_record(record)
            progress.finish(told_run.outcome())
        print([name for name in ("typer", "litellm") if name in sys.modules])
        """)
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert "\x1b" not in ran.stdout


def checked(**more: Any) -> events.ValidatorsFinished:
    """A round whose validators are green."""
    return told_run.checked(True, "43 passed").model_copy(update=more)


def test_the_check_environment_is_named_in_the_first_lines() -> None:
    started = told_run.started().model_copy(update={"checks": "overlay · protects tests/**"})
    assert "checks     overlay · protects tests/**" in lines_of(told_run.created(), started)


def test_what_a_check_says_beside_its_results_is_told() -> None:
    changed = events.ChangedChecks(key="k", paths=("a.py", "b.py"), results=())
    happened = (
        events.RoundStarted(round=1, prompt="first"),
        checked(
            protected_changes=tuple(f"t{number}.py (changed; existing test)" for number in range(7)),
            labels=("flaky: tests",),
            leaked=("x.py",),
            changed_checks=changed,
        ),
        checked(results=(), refusal="installed packages changed", hint="allow them"),
        events.WorkspaceChanged(paths=("y.py",), snapshot=Snapshot(id="a" * 64, tree="a" * 64)),
    )
    told_lines = [" ".join(line.split()) for line in lines_of(told_run.created(), told_run.started(), *happened)]
    for line in (
        "! files validators ignore the agent's version: t0.py (changed; existing test)",
        "! files and 2 more",
        "✗ checks the workspace changed while it was checked: x.py",
        "! checks pass only with the agent's version of a.py, b.py",
        "! note flaky: tests",
        "✗ checks installed packages changed; allow them",
        "! checks the workspace changed after the check (y.py); validators run again",
    ):
        assert line in told_lines, (line, told_lines)
    assert not [line for line in told_lines if "t5.py" in line]


def test_a_green_baseline_is_told() -> None:
    baseline = events.BaselineTaken(standing="green", results=checked().results)
    said = [" ".join(line.split()) for line in lines_of(told_run.created(), told_run.started(), baseline)]
    assert said[-1] == "✓ checks every validator passes before round 1"


def test_a_resumed_run_shows_the_agents_command_and_that_its_usage_is_unknown() -> None:
    started = told_run.started().model_copy(update={"agent_command": "command · ./fix.sh"})
    state = None
    prompt = told_run.message("user")
    for record in numbered(told_run.created(), started, events.RoundStarted(round=1, prompt="first"), prompt):
        state = apply(state, record)
    assert state is not None
    stream = io.StringIO()
    Progress(stream).on_state(state.model_copy(update={"iterations": 1}))
    lines = stream.getvalue().splitlines()
    assert any(line.startswith("agent      command · ./fix.sh") for line in lines)
    assert lines[-1].endswith("tokens unknown · cost unknown")
    Progress(stream).on_state(state.model_copy(update={"iterations": 1, "external": False}))
    assert stream.getvalue().splitlines()[-1].endswith("0 tokens · $0.00")


def test_a_round_that_was_interrupted_keeps_its_number_and_is_timed_from_the_resume() -> None:
    past = told_run.two_rounds()
    state = None
    for record in past[:3]:
        state = apply(state, record)
    assert state is not None
    stream = io.StringIO()
    progress = Progress(stream)
    progress.on_state(state)
    for record in past[3:]:
        progress.on_record(record)
    lines = stream.getvalue().splitlines()
    assert lines[4].startswith("round 1    · shell   pytest -q tests/test_parser.py")
    began, ended = past[2].elapsed, past[14].elapsed
    assert lines[8].startswith(f"           round 1 took {ended - began:.1f} s since it was resumed")


def test_only_a_terminal_needs_streamed_text() -> None:
    stream = io.StringIO()
    assert not isinstance(Progress(stream), TextObserver)
    assert not isinstance(Callback(print), TextObserver)
    assert isinstance(LiveProgress(stream), TextObserver)
