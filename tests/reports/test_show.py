from __future__ import annotations

from textwrap import dedent

from goalrunner.core import events
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import StopReason
from goalrunner.core.verdict import ValidatorResult
from goalrunner.reports.show import show_text
from tests.support import told_run
from tests.support.told_run import numbered


def test_a_run_is_told_again_with_its_end() -> None:
    told = "".join(show_text(told_run.two_rounds(), folder="/state/runs/k3f9-make-parse"))
    assert told == dedent("""\
        goal       Make parse() accept empty input.
        workspace  /src/parser                                     run    k3f9-make-parse
        agent      anthropic/claude-sonnet-4-5                     judge  openai/gpt-5-mini
        limits     10 rounds · 30 min · no budget
        round 1    · shell   pytest -q tests/test_p…    0.9 s   exit 1
                   · edit    src/parser.py              +4 −1
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✗ judge   0.62                       missing: no evidence that parse('') returns an empty Document
        round 2    · shell   python -c "import pars…    0.1 s   exit 0
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✓ judge   1.00                       2 of 2 criteria, 3 citations checked
        complete   2 rounds · 22.0 s · 41,210 tokens · $0.11, of which judge 11 %
                   /state/runs/k3f9-make-parse/outcome.json
        """)


def test_a_failed_run_says_why() -> None:
    failed = events.RunEnded(stop_reason=StopReason.AUTHENTICATION, message="the key is wrong\nexport KEY=...")
    told = "".join(show_text(numbered(told_run.created(), told_run.started(), failed), folder="/r"))
    assert told.splitlines()[4:] == [
        "failed     0 rounds · 3.0 s",
        "           the key is wrong",
        "           export KEY=...",
        "           /r/outcome.json",
        "continue   goal resume k3f9-make-parse",
    ]


def test_a_run_under_way_has_no_outcome_yet() -> None:
    records = numbered(told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    told = "".join(show_text(records, folder="/r", has_outcome=lambda: False))
    assert told.splitlines()[4:] == [
        "folder     /r",
        "running    0 rounds · 3.0 s",
        "follow     goal watch k3f9-make-parse",
    ]


def test_a_lost_run_is_not_called_running() -> None:
    records = numbered(told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    told = "".join(show_text(records, folder="/r", has_outcome=lambda: False, lost=lambda: True))
    assert told.splitlines()[4:] == [
        "folder     /r",
        "lost       The process of this run has ended unexpectedly; everything that it recorded is kept.",
        "           last seen in round 1 · 0 rounds checked · 3.0 s",
        "continue   goal resume k3f9-make-parse",
    ]


def test_an_ended_run_without_its_outcome_names_the_folder() -> None:
    told = "".join(show_text(told_run.two_rounds(), folder="/r", has_outcome=lambda: False))
    assert "folder     /r\ncomplete   " in told
    assert told.endswith("of which judge 11 %\n")


def test_the_end_of_what_a_red_validator_printed_is_shown() -> None:
    result = ValidatorResult(
        name="tests",
        passed=False,
        command="make test",
        exit_code=2,
        duration=1.0,
        summary="exit 2",
        feedback="\n".join([*(f"line {number}" for number in range(20)), "  \x1b]0;x\x07AssertionError: 4", "^^^^"]),
    )
    capped = events.RunEnded(stop_reason=StopReason.MAX_ITERATIONS, message="not complete after 1 round")
    records = numbered(
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
        events.RoundFinished(round=1, reason="answered", steps=1),
        events.ValidatorsFinished(round=1, results=(result,)),
        capped,
    )
    assert "".join(show_text(records, folder="/r")).splitlines()[4:] == [
        "round 1    ✗ tests   make test                  1.0 s   exit 2: AssertionError: 4",
        "capped     1 round · 6.0 s",
        "           not complete after 1 round",
        "validator  tests: exit 2: AssertionError: 4",
        "           …",
        *(f"           line {number}" for number in range(12, 20)),
        "             AssertionError: 4",
        "           ^^^^",
        "           /r/outcome.json",
        "continue   goal resume k3f9-make-parse --max-iterations 20",
        "changes    goal diff k3f9-make-parse",
    ]


def test_an_empty_log_is_called_empty() -> None:
    assert "".join(show_text([], folder="/r")) == "empty      The log of this run has no events.\n"


def test_the_last_words_of_each_round_are_told_short_and_clean() -> None:
    told = {0: "I look.", 1: "Now it is\n\x1b[31mdone\x1b[0m. " + "x" * 400, 2: ""}
    said = [
        told_run.message().model_copy(update={"text": TranscriptRef(offset=at, length=1, sha256=told_run.HASH)})
        for at in told
    ]
    calls_alone = said[2].model_copy(update={"has_text": False})
    records = numbered(
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
        said[0],
        told_run.tool_result("shell", "ls", "exit 0", 0.1),
        said[1],
        calls_alone,
        events.RoundFinished(round=1),
        events.RoundStarted(round=2, prompt="retry"),
        events.RoundFinished(round=2),
    )
    lines = "".join(show_text(records, folder="/r", words=lambda ref: told[ref.offset])).splitlines()[4:6]
    assert lines == [
        "round 1    · shell   ls                         0.1 s   exit 0",
        "           · agent   said                       Now it is done. " + "x" * 283 + "…",
    ]
