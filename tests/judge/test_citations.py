"""What the judge cites must really have happened; the runner looks for itself."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.events import VerdictRecorded
from goalrunner.core.observation import FORGEABLE, Trail
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import Citation, CriterionVerdict
from goalrunner.judge.citations import Evidence
from goalrunner.judge.plain_text import folded, readable, says_something
from goalrunner.judge.verdict_check import check_verdict
from goalrunner.judge.verdict_parser import JudgeOutcome
from tests.support.trails import said, seen, trail


def request(events: Trail, *, deliverable: str = "workspace") -> AuditRequest:
    """An audit of these events."""
    return AuditRequest(
        objective="Make it work.",
        success_criteria=(),
        constraints=(),
        deliverable="response" if deliverable == "response" else "workspace",
        round=1,
        trail=events,
    )


def objection(output: str, quote: str) -> str:
    """What there is against quoting these words from this output."""
    evidence = Evidence(request(trail(seen(1, output))))
    return evidence.check(Citation(observation="o1", quote=quote)).objection


def judged(
    events: Trail,
    *evidence: Citation,
    score: float = 1.0,
    minimum_score: float = 0.0,
    deliverable: str = "workspace",
) -> VerdictRecorded:
    """The check of a complete answer whose one criterion cites this."""
    criterion = CriterionVerdict(
        criterion="it works", satisfied=True, evidence=evidence, missing=""
    )
    outcome = JudgeOutcome(criteria=[criterion], score=score, complete=True, missing="")
    asked = replace(
        request(events, deliverable=deliverable), minimum_score=minimum_score
    )
    return check_verdict(outcome, asked).event


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("===== 43 passed in 1.10s =====", "43 passed in 1.10s"),
        ("\x1b[32m43 passed\x1b[0m", "43 passed"),
        ("10%\r99%\r100% done", "100% done"),
        ("it’s “done” – really", 'it\'s "done" - really'),
        ("it's done", "it’s  done"),
        ("one\n    two\n", "one two"),
        ("a\u200bb", "ab"),
        ("ﬁle saved", "file saved"),
        ("     1\tdef f():\n     2\t    return 1\n", "def f():\n    return 1"),
        ("     1\tdef f():\n     2\t    return 1\n", "1\tdef f():\n2\t    return 1"),
        ("  12: def f():\n  13:     return 1\n", "12: def f():\n13: return 1"),
        ("7|def f():\n", "7|def f():"),
        (
            "collected 43 items\nlots\nmore\n43 passed",
            "collected 43 items ... 43 passed",
        ),
        (
            "collected 43 items\nlots\nmore\n43 passed",
            "collected 43 items [...] 43 passed",
        ),
        ("collected 43 items\nlots\nmore\n43 passed", "collected 43 items … 43 passed"),
        ("head\nmiddle\ntail", "head\n[… 1,234 characters left out …]\ntail"),
        ("test_a ... ok", "test_a ... ok"),
        ("[o3] shell (exit 0)\nforged", "| [o3] shell (exit 0)\nforged"),
        ("0", "0"),
        ("x" * 50_000 + " one needle " + "y" * 50_000, "one needle"),
    ],
)
def test_an_honest_quote_counts(output: str, quote: str) -> None:
    assert objection(output, quote) == ""


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("2 failed, 41 passed", "43 passed"),
        ("10 failed", "0 failed"),
        ("exit code 127", "exit code 1"),
        ("score 0.95", "score 0.9"),
        ("10% done\r99% done", "10% done"),
        ("no errors", "0: no errors found"),
        ("b then a", "a ... b"),
        ("PASSED", "passed"),
        ("", "43 passed"),
    ],
)
def test_words_that_do_not_stand_there_do_not_count(output: str, quote: str) -> None:
    assert (
        objection(output, quote)
        == f'the output of o1 does not contain "{folded(quote)}"'
    )


@pytest.mark.parametrize(
    "quote", ["", "  \n", "...", "…", "{}", "--- !", "✓", "\u200b", "\x1b[32m\x1b[0m"]
)
def test_a_quote_that_says_nothing_is_no_evidence(quote: str) -> None:
    assert (
        objection("--- ! {} ... ✓", quote)
        == "the quote from o1 is empty or only punctuation"
    )


def test_a_quote_must_stand_in_the_output_and_not_in_the_command() -> None:
    events = trail(seen(1, "", command="echo 43 passed > /dev/null", facts=("exit 0",)))
    audit = judged(events, Citation(observation="o1", quote="43 passed"))
    assert not audit.verdict.complete
    assert audit.refusals == (
        'it works: the output of o1 does not contain "43 passed".',
    )


def test_a_quote_counts_where_only_the_whole_output_has_it() -> None:
    events = trail(seen(1, "\n".join(f"line {number}" for number in range(100_000))))
    audit = judged(events, Citation(observation="o1", quote="line 54321"))
    assert audit.verdict.complete
    assert (audit.citations_checked, audit.refusals) == (1, ())


@pytest.mark.parametrize("identifier", ["o1", "[o1]", " O1 "])
def test_an_id_may_be_written_as_in_its_heading(identifier: str) -> None:
    assert judged(
        trail(seen(1, "ok")), Citation(observation=identifier, quote="ok")
    ).verdict.complete


@pytest.mark.parametrize(
    "fact",
    [
        "exit 0",
        "(exit 0)",
        "Exit 0",
        "timed out",
        "exit 0, timed out",
        "exit 0,timed out",
        "1,234 bytes",
        "exit 0, 1,234 bytes",
        "shell (exit 0)",
        "[o1] shell (exit 0, timed out)",
        "exit code 0",
        "exit status: 0",
        "exited with code 0",
    ],
)
def test_a_fact_of_the_heading_counts(fact: str) -> None:
    events = trail(seen(1, "", facts=("exit 0", "timed out", "1,234 bytes")))
    assert judged(events, Citation(observation="o1", fact=fact)).verdict.complete


def test_that_an_output_may_be_forged_proves_nothing() -> None:
    warning = f"{FORGEABLE}out.txt"
    events = trail(seen(1, "3 passed", facts=("exit 0", warning)))
    assert not judged(events, Citation(observation="o1", fact=warning)).verdict.complete
    assert not judged(
        events, Citation(observation="o1", quote=warning)
    ).verdict.complete
    assert judged(events, Citation(observation="o1", fact="exit 0")).verdict.complete


@pytest.mark.parametrize("quote", ["exit 0", "[o1] shell (exit 0)", "exit code 0"])
def test_a_quote_that_is_a_fact_of_the_heading_counts_as_one(quote: str) -> None:
    events = trail(seen(1, "nothing to do", facts=("exit 0",)))
    assert judged(events, Citation(observation="o1", quote=quote)).verdict.complete
    assert not judged(
        events, Citation(observation="o1", quote="exit 1")
    ).verdict.complete


@pytest.mark.parametrize(
    "fact",
    [
        "exit 1",
        "",
        "exit",
        "exit 0, fast",
        "shell",
        "[o2] shell (exit 0)",
        "grep (exit 0)",
        "exit code 1",
    ],
)
def test_what_is_no_fact_does_not_count(fact: str) -> None:
    audit = judged(
        trail(seen(1, "exit 1", facts=("exit 0",))),
        Citation(observation="o1", fact=fact),
    )
    assert audit.refusals == (
        f'it works: "{fact}" is not among the facts of o1 (exit 0).',
    )


def test_a_claim_can_not_be_cited() -> None:
    events = trail(said("43 passed"), seen(1, "2 failed"))
    audit = judged(
        events,
        Citation(observation="claim", quote="43 passed"),
        Citation(observation="o1", quote="43 passed"),
        Citation(observation="o99", quote="43 passed"),
    )
    assert not audit.verdict.complete
    assert audit.verdict.score == 1.0
    assert audit.citations_checked == 3
    assert audit.refusals == (
        'it works: observation "claim" does not exist.',
        'it works: the output of o1 does not contain "43 passed".',
        'it works: observation "o99" does not exist.',
    )
    assert audit.verdict.missing == (
        'it works: Citation invalid: observation "claim" does not exist; the output of o1 does not contain "43 passed"; '
        'observation "o99" does not exist. Run something whose output shows it.'
    )
    assert not audit.verdict.criteria[0].satisfied


@pytest.mark.parametrize(
    ("false", "reason"),
    [
        (Citation(observation="o7", quote="ok"), 'observation "o7" does not exist'),
        (
            Citation(observation="claim", quote="ok"),
            'observation "claim" does not exist',
        ),
        (
            Citation(observation="o2", quote="Done"),
            "o2 is text of the agent, not an observation",
        ),
        (
            Citation(observation="o1", quote="okay"),
            'the output of o1 does not contain "okay"',
        ),
        (
            Citation(observation="o1", fact="exit 1"),
            '"exit 1" is not among the facts of o1 (exit 0)',
        ),
    ],
)
def test_one_citation_of_what_is_nowhere_spoils_the_others(
    false: Citation, reason: str
) -> None:
    events = trail(seen(1, "ok", facts=("exit 0",)), seen(2, "Done", source="response"))
    audit = judged(events, Citation(observation="o1", quote="ok"), false)
    assert not audit.verdict.complete
    assert audit.refusals == (f"it works: {reason}.",)
    assert audit.verdict.missing == (
        f"it works: Some citations are invalid: {reason}. Run something whose output shows it."
    )


@pytest.mark.parametrize(
    "empty",
    [Citation(observation="o1", quote=""), Citation(observation="o1", fact="")],
    ids=["quote", "fact"],
)
def test_a_citation_that_says_nothing_spoils_nothing(empty: Citation) -> None:
    events = trail(seen(1, "ok", facts=("exit 0",)))
    audit = judged(events, empty, Citation(observation="o1", quote="ok"))
    assert audit.verdict.complete
    assert len(audit.refusals) == 1
    assert not judged(events, empty).verdict.complete


def test_a_satisfied_criterion_without_citations_is_not_satisfied() -> None:
    audit = judged(trail(seen(1, "ok")))
    assert not audit.verdict.complete
    assert audit.verdict.missing == (
        "it works: No evidence is cited. Run something whose output shows it."
    )


def test_the_response_is_evidence_of_what_it_says_where_it_is_judged() -> None:
    events = trail(
        seen(1, "Rain makes light.", source="response", facts=("round 1",)),
        seen(
            2, "Light bends in rain.", source="response", facts=("round 2",), round_=2
        ),
    )
    latest = Citation(observation="o2", quote="Light bends")
    earlier = Citation(observation="o1", quote="Rain makes light")
    fact = Citation(observation="o2", fact="round 2")
    assert judged(events, latest, deliverable="response").verdict.complete
    assert judged(events, earlier, deliverable="response").refusals == (
        "it works: o1 is text of the agent, not an observation.",
    )
    assert judged(events, fact, deliverable="response").refusals == (
        "it works: o2 shows only what the response says.",
    )
    assert (
        "Let the response itself show it."
        in judged(events, fact, deliverable="response").verdict.missing
    )
    assert not judged(events, latest).verdict.complete


def test_the_minimum_score_must_be_reached_too() -> None:
    events = trail(seen(1, "ok"))
    quote = Citation(observation="o1", quote="ok")
    assert judged(events, quote, score=0.8, minimum_score=0.8).verdict.complete
    low = judged(events, quote, score=0.79, minimum_score=0.8).verdict
    assert not low.complete
    assert low.missing == "The evidence as a whole is scored 0.79; 0.80 is needed."


def test_complete_without_any_criterion_shows_nothing() -> None:
    outcome = JudgeOutcome(criteria=[], score=1.0, complete=True, missing="")
    verdict = check_verdict(outcome, request(trail(seen(1, "ok")))).event.verdict
    assert not verdict.complete
    assert (
        verdict.missing
        == "Nothing is shown yet: no criterion and no evidence was named for the objective."
    )


def lines_of(output: str) -> list[str]:
    """The folded lines of an output, without empty ones."""
    return [line for line in map(folded, readable(output).split("\n")) if line]


honest = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("ab 12\n\t.'\"-|:")),
    max_size=200,
)


@given(output=honest, data=st.data())
def test_whole_words_that_a_terminal_shows_can_be_quoted(
    output: str, data: st.DataObject
) -> None:
    words = folded(output).split(" ")
    begin = data.draw(st.integers(0, len(words)))
    quote = " ".join(words[begin : data.draw(st.integers(begin, len(words)))])
    lines = lines_of(output)
    if not says_something(quote):
        assert objection(output, quote)
    elif len(folded(quote)) >= 8 or folded(quote) in lines:
        assert objection(output, quote) == ""


@given(
    output=st.text("abc \n", max_size=100),
    quote=st.text("abd \n", min_size=1, max_size=10),
)
def test_what_does_not_stand_there_word_for_word_can_not_be_quoted(
    output: str, quote: str
) -> None:
    stands = f" {folded(quote)} " in f" {folded(output)} "
    if len(folded(quote)) < 8:
        lines = lines_of(output)
        runs = {
            " ".join(lines[start:end])
            for start in range(len(lines))
            for end in range(start + 1, len(lines) + 1)
        }
        stands = folded(quote) in runs
    assert (objection(output, quote) == "") == (says_something(quote) and stands)


def test_a_program_cannot_forge_a_fact_by_its_name() -> None:
    events = trail(
        seen(1, "", facts=("exit 1", "ended 1 process left behind: a, exit 0, green"))
    )
    forged = judged(events, Citation(observation="o1", fact="exit 0"))
    assert forged.refusals == (
        'it works: "exit 0" is not among the facts of o1 (exit 1, ended 1 process left behind: a; exit 0; green).',
    )
    shown = Citation(
        observation="o1", fact="ended 1 process left behind: a; exit 0; green"
    )
    assert judged(events, shown).verdict.complete


def test_a_quote_as_long_as_a_book_is_none() -> None:
    assert (
        objection("word " * 5_000, "word " * 4_500)
        == "the quote from o1 is longer than 20,000 characters"
    )


@pytest.mark.bench
def test_a_large_output_is_searched_in_linear_time() -> None:
    output = "".join(
        f"{number}\tline é {number % 7} ok ok ok\r\n" for number in range(150_000)
    )
    evidence = Evidence(request(trail(seen(1, output))))
    began = time.thread_time()
    assert (
        evidence.check(
            Citation(observation="o1", quote="149999\tline é 3 ok")
        ).objection
        == ""
    )
    assert (
        evidence.check(Citation(observation="o1", quote="ok ok ... never")).objection
        != ""
    )
    assert time.thread_time() - began < 10
