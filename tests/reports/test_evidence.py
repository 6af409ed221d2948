"""The evidence table as people and machines see it, whole."""

from __future__ import annotations

from goalrunner.core.observation import EvidenceRow
from goalrunner.core.verdict import GoalVerdict
from goalrunner.reports.audit import evidence_text, evidence_value
from goalrunner.reports.text import width

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
    assert evidence_text("k3f9-make-parse", RED, ROWS) == (
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
    text = evidence_text("k3f9-make-parse", RED, ROWS, columns=32)
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
    assert evidence_text("k3f9", None, ()) == "run        k3f9\nverdict    none yet\n"
    empty = GoalVerdict(score=0, complete=False, source="fallback")
    assert evidence_text("k3f9", empty, ()) == (
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
