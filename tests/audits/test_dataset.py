"""Datasets of labelled transcripts are read, or refused with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.audits.dataset import read_dataset
from goalrunner.core.errors import UsageError


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "1  Invalid JSON: EOF while parsing an object at line 1 column 1"),
        ('{"path": "a", "objective": "x"}', "1  label: Field required"),
        (
            '{"path": "a", "objective": "x", "label": 1}',
            "1  label: Input should be a valid boolean",
        ),
        (
            '{"path": "a", "label": true}',
            "1  either objective or goal (a goal file) is needed",
        ),
        ("", "  the dataset has no samples"),
    ],
)
def test_an_invalid_dataset_is_refused_with_its_line(
    tmp_path: Path, row: str, message: str
) -> None:
    dataset = tmp_path / "dataset.jsonl"
    dataset.write_text(f"{row}\n")
    with pytest.raises(UsageError) as caught:
        read_dataset(dataset)
    assert caught.value.message.removeprefix(str(dataset)).removeprefix(
        ":"
    ) == message.replace("  the", " the", 1)
    assert '"label"' in caught.value.hint


def test_labels_may_be_words(tmp_path: Path) -> None:
    dataset = tmp_path / "dataset.jsonl"
    dataset.write_text(
        '{"path": "a", "objective": "x", "label": "complete", "note": "mine"}\n\n' * 2
    )
    assert [
        (one.line, one.label, one.folder / one.path) for one in read_dataset(dataset)
    ] == [
        (1, True, tmp_path / "a"),
        (3, True, tmp_path / "a"),
    ]
