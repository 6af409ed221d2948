"""Labels: the page that documents them, and texts of logs."""

from __future__ import annotations

from pathlib import Path

from goalrunner.core.labels import EXPLANATIONS, Label, label_in

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "labels.md"


def test_the_page_has_the_row_of_each_label() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    expected = []
    for label in Label:
        meaning, cure, names = EXPLANATIONS[label]
        expected.append(
            f"| `{label.about(names) if names else label}` | {meaning} | {cure} |"
        )
    assert rows == expected


def test_a_text_of_a_log_is_recognised_by_its_beginning() -> None:
    assert label_in(Label.FLAKY.about("tests, lint")) is Label.FLAKY
    assert label_in("self-judged") is Label.SELF_JUDGED
    assert label_in("of a later version: x") is None
