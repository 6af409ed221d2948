"""Text for the logs of CI systems."""

from __future__ import annotations

import json

from goalrunner.reports.ci_log import json_text
from tests.support.told_run import outcome


def test_the_outcome_has_the_names_that_readers_know() -> None:
    value = json.loads(json_text(outcome().model_dump(mode="json")))
    assert (value["status"], value["stop_reason"], value["iterations"]) == (
        "complete",
        "satisfied",
        2,
    )
    assert {key: value["verdict"][key] for key in ("score", "complete", "missing")} == {
        "score": 1.0,
        "complete": True,
        "missing": "",
    }


def test_json_is_ascii_so_that_nothing_in_it_reaches_a_terminal() -> None:
    text = json_text(
        {**outcome().model_dump(mode="json"), "message": "\x9b2J\x1b[31m日本 \ud800"}
    )
    assert text.isascii()
    assert "\x1b" not in text
    assert text.endswith("}\n")
