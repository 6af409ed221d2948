"""A verdict with its evidence as JSON."""

from __future__ import annotations

from goalrunner.reports.evidence import evidence_value
from tests.reports import pages


def test_json_holds_every_field_whether_it_is_fresh_and_who_saw_it() -> None:
    value = evidence_value("k3f9", pages.NOT_COMPLETE, pages.ROWS)
    assert value["verdict"] == {"complete": False, "score": 0.628, "source": "judge"}
    assert [row["fresh"] for row in value["evidence"]] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert [row["seen_by"] for row in value["evidence"]] == [
        "runner",
        "claude",
        "",
        "",
        "runner",
    ]
    assert value["evidence"][0] == {
        **pages.ROWS[0].model_dump(mode="json"),
        "fresh": True,
        "seen_by": "runner",
    }
    assert evidence_value("k3f9", None, ()) == {
        "run_id": "k3f9",
        "verdict": None,
        "evidence": [],
    }
