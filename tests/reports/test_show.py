"""A state explained: who decided what, when, and on which evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import dedent

from goalrunner.audits.pages import verdict_facts
from goalrunner.core import events
from goalrunner.core.events import ApprovalRecorded, ApprovalRequested, Event, Record
from goalrunner.core.fold import apply
from goalrunner.core.limits import timed_out
from goalrunner.core.observation import EvidenceRow, TranscriptRef
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import RunState
from goalrunner.core.run_summary import RunSummary
from goalrunner.core.verdict import CriterionVerdict, GoalVerdict, ValidatorResult
from goalrunner.reports.layout import laid_out, width
from goalrunner.reports.review import evidence_facts, evidence_value
from goalrunner.reports.show import show_text, state_lines
from goalrunner.reports.status import status_lines
from tests.support import told_run
from tests.support.told_run import created, green_verdict, numbered, red_verdict, started


def state_of(*happened: Event) -> RunState:
    """The state after these events."""
    state: RunState | None = None
    for record in numbered(*happened):
        state = apply(state, record)
    assert state is not None
    return state


def test_a_run_is_told_again_with_its_end() -> None:
    told = "".join(show_text(told_run.two_rounds(), folder="/state/runs/k3f9-make-parse"))
    assert told == dedent("""\
        goal       Make parse() accept empty input.
        workspace  /src/parser                           run    k3f9-make-parse
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
        folder     /state/runs/k3f9-make-parse
        complete   2 rounds · 22.0 s · 41,210 tokens · $0.11 (judge 11 %)
        """)


def test_a_failed_run_says_why() -> None:
    failed = events.RunEnded(stop_reason=StopReason.AUTHENTICATION, message="the key is wrong\nexport KEY=...")
    told = "".join(show_text(numbered(told_run.created(), told_run.started(), failed), folder="/r"))
    assert told.splitlines()[4:] == [
        "folder     /r",
        "failed     0 rounds · 3.0 s",
        "           the key is wrong",
        "           export KEY=...",
        "continue   goal resume k3f9-make-parse",
    ]


def test_a_run_under_way_has_no_outcome_yet() -> None:
    records = numbered(told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    told = "".join(show_text(records, folder="/r"))
    assert told.splitlines()[4:] == [
        "folder     /r",
        "running    0 rounds · 3.0 s",
        "follow     goal watch k3f9-make-parse",
    ]


def test_a_lost_run_is_not_called_running() -> None:
    records = numbered(told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    told = "".join(show_text(records, folder="/r", lost=lambda: True))
    assert told.splitlines()[4:] == [
        "folder     /r",
        "lost       The process of this run has ended unexpectedly; everything that it recorded is kept.",
        "           last seen while the agent of round 1 ran · 0 rounds checked · 3.0 s",
        "continue   goal resume k3f9-make-parse",
    ]


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
        "folder     /r",
        "capped     1 round · 6.0 s",
        "           not complete after 1 round",
        "validator  tests: exit 2: AssertionError: 4",
        "           …",
        *(f"           line {number}" for number in range(12, 20)),
        "             AssertionError: 4",
        "           ^^^^",
        "continue   goal resume k3f9-make-parse --max-iterations 20",
        "changes    goal diff k3f9-make-parse",
    ]


def test_a_run_that_was_stopped_within_a_round_names_the_round_of_the_last_results() -> None:
    created = told_run.created()
    alone = created.model_copy(update={"plan": created.plan.model_copy(update={"has_judge": False})})
    happened: list[Event] = [
        alone,
        told_run.started(judge=""),
        events.RoundStarted(round=1, prompt="first"),
        events.RoundFinished(round=1, reason="answered", steps=1),
        told_run.checked(False, "2 failed"),
        events.RoundStarted(round=2, prompt="retry"),
        events.RoundFinished(round=2, reason="answered", steps=1),
        events.StepStarted(step_id="validate-2", description="run 1 validator"),
    ]
    state = state_of(*happened)
    told = "".join(show_text(numbered(*happened, timed_out(state)), folder="/r"))
    assert told[told.index("capped") :].splitlines()[:3] == [
        "capped     1 round · 9.0 s",
        "           the time limit of 1800 s was reached while the validators of round 2 ran",
        "round 1    validator tests: 2 failed",
    ]


def test_an_interrupted_turn_of_unknown_usage_makes_the_budget_a_limit_to_lift() -> None:
    created = told_run.created()
    plan = created.plan.model_copy(update={"tokens": 1_000, "cost_usd": 1.0, "unenforced": ("cost_usd",)})
    happened: list[Event] = [
        created.model_copy(update={"plan": plan}),
        told_run.started().model_copy(update={"agent_command": "claude -p"}),
        events.RoundStarted(round=1, prompt="first"),
        told_run.message("user"),
        events.RunEnded(stop_reason=StopReason.INTERRUPTED, message="interrupted"),
    ]
    told = "".join(show_text(numbered(*happened), folder="/r"))
    assert [line for line in told.splitlines() if "goal resume" in line] == [
        "continue   goal resume k3f9-make-parse --allow-unenforced tokens",
        "no limit   goal resume k3f9-make-parse --tokens inf",
    ]


def test_a_baseline_that_completes_the_run_is_no_round() -> None:
    created = told_run.created()
    plan = created.plan.model_copy(update={"has_judge": False, "takes_baseline": True})
    green = told_run.checked(True, "43 passed").results
    happened: list[Event] = [
        created.model_copy(update={"plan": plan}),
        told_run.started(judge=""),
        events.BaselineTaken(standing="green", results=green),
        events.RunEnded(stop_reason=StopReason.SATISFIED),
    ]
    state = state_of(*happened)
    assert state.iterations == 1
    assert "complete   before round 1 · 4.0 s\n" in "".join(show_text(numbered(*happened), folder="/r"))
    shown = laid_out(status_lines(RunSummary.of(state), datetime.now(UTC)))
    assert "rounds     0 of 10\n" in shown


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


def folded(*happened: Event) -> RunState:
    """The state of a run in which that happened, a minute each."""
    state: RunState | None = None
    for place, event in enumerate((created(), started(), *happened), start=1):
        state = apply(state, Record(seq=place, at=f"2026-11-02T10:{place:02}:00.000+00:00", event=event))
    assert state is not None
    return state


def asked(name: str, action: str) -> ApprovalRequested:
    """A request that was made on two observations."""
    return ApprovalRequested(
        approval_id=name,
        kind="shell",
        action=action,
        rule="[approvals] shell",
        tool_call_id=f"call_{name}",
        expires_at="2026-11-03T10:00:00+00:00",
        evidence_refs=("o3", "o4"),
    )


def test_each_approval_says_who_when_and_on_which_evidence() -> None:
    state = folded(
        asked("a1", "git push"),
        ApprovalRecorded(approval_id="a1", decision="approved", by="ann", evidence_refs=("o3", "o4")),
        asked("a2", "rm -rf build"),
        ApprovalRecorded(approval_id="a2", decision="denied", by="bob", reason="not today", guarded=False),
        asked("a3", "git tag"),
    )
    lines = laid_out(state_lines(state)).splitlines()
    assert [line for line in lines if line.startswith(("approvals", "           a"))] == [
        "approvals  a1: git push ([approvals] shell) · approved by ann at 2026-11-02T10:04:00.000+00:00, on o3, o4",
        (
            "           a2: rm -rf build ([approvals] shell) · denied by bob (unguarded) at 2026-11-02T10:06:00.000+00:00, "
            "on o3, o4: not today"
        ),
        (
            "           a3: git tag ([approvals] shell) · waits since 2026-11-02T10:07:00.000+00:00, "
            "until 2026-11-03T10:00:00+00:00, on o3, o4"
        ),
    ]
    assert "waits      a3 shell: git tag" in lines


RED = GoalVerdict(score=0.628, complete=False, missing="no measurement")
ROWS = (
    EvidenceRow(
        criterion="parse('') returns an empty Document",
        satisfied=True,
        observation="o12",
        known=True,
        source="shell",
        command="pytest -q tests/test_parser.py",
        exit_code=0,
        facts=("exit 0",),
        quote="43 passed in 1.20s",
        snapshot="3f2a1b9c8d7e" + "0" * 52,
    ),
    EvidenceRow(
        criterion="parse('') returns an empty Document",
        satisfied=True,
        observation="o9",
        known=True,
        source="edit_file",
        command="src/parser.py",
        facts=("replaced",),
        fact="replaced",
        reported_by="claude",
        snapshot="aaaaaaaaaaaa" + "0" * 52,
        stale="src/parser.py changed after o9",
    ),
    EvidenceRow(criterion="it is fast", satisfied=False, missing="no measurement"),
    EvidenceRow(criterion="it is \x1b[31msmall", satisfied=False, observation="o99", quote="small"),
    EvidenceRow(
        criterion="validator tests",
        kind="validator",
        satisfied=True,
        observation="o13",
        known=True,
        source="validator tests",
        command="pytest -q",
        exit_code=0,
        facts=("exit 0", "green"),
        fact="43 passed",
    ),
)


def test_the_table_for_a_pipe() -> None:
    assert laid_out(evidence_facts("k3f9-make-parse", RED, ROWS)) == (
        "run        k3f9-make-parse\n"
        "verdict    not complete · 0.62 · by the judge\n"
        "✓          parse('') returns an empty Document\n"
        "  o12      shell: pytest -q tests/test_parser.py\n"
        "           says “43 passed in 1.20s”\n"
        "           exit 0 · seen by the runner · snapshot 3f2a1b9c8d7e · fresh\n"
        "  o9       edit_file: src/parser.py\n"
        "           fact “replaced”\n"
        "           replaced · reported by claude · snapshot aaaaaaaaaaaa · stale: src/parser.py changed after o9\n"
        "✗          it is fast\n"
        "           missing: no measurement\n"
        "✗          it is small\n"
        "  o99      no such observation\n"
        "           says “small”\n"
        "✓          validator tests\n"
        "  o13      pytest -q\n"
        "           43 passed\n"
        "           exit 0, green · seen by the runner · no snapshot\n"
    )


def test_the_table_fits_a_narrow_terminal_and_loses_nothing() -> None:
    text = laid_out(evidence_facts("k3f9-make-parse", RED, ROWS), 32)
    assert max(width(line) for line in text.splitlines()) <= 32
    assert text.startswith(
        "run        k3f9-make-parse\n"
        "verdict    not complete · 0.62 ·\n"
        "           by the judge\n"
        "✓          parse('') returns an\n"
        "           empty Document\n"
        "  o12      shell: pytest -q\n"
        "           tests/test_parser.py\n"
        "           says “43 passed in\n"
        "           1.20s”\n"
    )


def test_a_run_without_a_verdict_says_so() -> None:
    assert laid_out(evidence_facts("k3f9", None, ())) == "run        k3f9\nverdict    none yet\n"
    empty = GoalVerdict(score=0, complete=False, source="fallback")
    assert laid_out(evidence_facts("k3f9", empty, ())) == (
        "run        k3f9\n"
        "verdict    not complete · 0.00 · the judge's answer could not be read\n"
        "           It names no criterion and cites no evidence.\n"
    )


def test_json_holds_every_field_whether_it_is_fresh_and_who_saw_it() -> None:
    value = evidence_value("k3f9", RED, ROWS)
    assert value["verdict"] == {"complete": False, "score": 0.628, "source": "judge"}
    assert [row["fresh"] for row in value["evidence"]] == [True, False, False, False, True]
    assert [row["seen_by"] for row in value["evidence"]] == ["runner", "claude", "", "", "runner"]
    assert value["evidence"][0] == {**ROWS[0].model_dump(mode="json"), "fresh": True, "seen_by": "runner"}
    assert evidence_value("k3f9", None, ()) == {"run_id": "k3f9", "verdict": None, "evidence": []}


def test_a_complete_verdict_lists_its_criteria() -> None:
    assert laid_out(verdict_facts(green_verdict())) == dedent("""\
        verdict    complete · 1.00
        criteria   ✓ pytest passes
                   ✓ parse('') returns an empty Document
        """)


def test_a_red_verdict_says_what_is_missing() -> None:
    assert laid_out(verdict_facts(red_verdict("no \x1b[31mevidence"))) == dedent("""\
        verdict    not complete · 0.62
        criteria   ✗ parse('') works: no evidence
        """)


def test_what_a_criterion_says_already_is_not_said_again() -> None:
    criteria = (CriterionVerdict(criterion="a", satisfied=False, missing="show it"),)
    for missing in ("show it", "a: show it", "a:  show it\n"):
        verdict = GoalVerdict(score=1.0, complete=False, missing=missing, criteria=criteria)
        assert laid_out(verdict_facts(verdict)) == "verdict    not complete · 1.00\ncriteria   ✗ a: show it\n"
    more = GoalVerdict(score=1.0, complete=False, missing="a: show it\nand more", criteria=criteria)
    assert laid_out(verdict_facts(more)).endswith("missing    and more\n")


def test_the_final_answer_keeps_its_lines_and_its_indentation() -> None:
    answer = "Changed `parse`:\n\n- it accepts empty input\n    return Document()\n"
    at = TranscriptRef(offset=0, length=1, sha256="0" * 64)
    records = numbered(
        created(),
        started(),
        events.RoundStarted(round=1, prompt="first"),
        events.MessageRecorded(role="assistant", text=at),
        events.RoundFinished(round=1, reason="answered", steps=1),
        events.RunEnded(stop_reason=StopReason.MAX_ITERATIONS, message="not complete after 1 round"),
    )
    shown = "".join(show_text(records, folder="/r", words=lambda _: answer, columns=80)).splitlines()
    begin = next(index for index, line in enumerate(shown) if line.startswith("answer"))
    assert shown[begin : begin + 4] == [
        "answer     Changed `parse`:",
        "",
        "           - it accepts empty input",
        "               return Document()",
    ]
    short = "".join(show_text(records, folder="/r", words=lambda _: "Done.", columns=80))
    assert "answer " not in short
