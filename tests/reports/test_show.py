from __future__ import annotations

from textwrap import dedent

from goalrunner import events
from goalrunner.model.outcome import StopReason
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
    failed = events.Failed(stop_reason=StopReason.AUTHENTICATION, reason="the key is wrong\nexport KEY=...")
    told = "".join(show_text(numbered(told_run.created(), told_run.started(), failed), folder="/r"))
    assert told.splitlines()[4:] == [
        "failed     0 rounds · 3.0 s",
        "           the key is wrong",
        "           export KEY=...",
        "           /r/outcome.json",
    ]


def test_a_run_under_way_has_no_outcome_yet() -> None:
    records = numbered(told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    told = "".join(show_text(records, folder="/r", remark="the process that ran it is gone"))
    assert told.splitlines()[4:] == [
        "running    0 rounds · 3.0 s",
        "           the process that ran it is gone",
        "           /r",
    ]


def test_an_empty_log_is_called_empty() -> None:
    assert "".join(show_text([], folder="/r")) == "empty      the log holds no event\n"
