"""Datasets of labelled transcripts, as JSON Lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    StringConstraints,
    ValidationError,
    model_validator,
)

from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import first_problem

_FORM = (
    "Each line is a JSON object: "
    '{"path": "chat.jsonl", "objective": "The tests pass.", "label": true}'
)
_LABELS = {"complete": True, "incomplete": False}


def _label_value(value: Any) -> Any:
    """Return the truth value of a label in words; other values as they are."""
    return _LABELS.get(value, value) if isinstance(value, str) else value


_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_Label = Annotated[bool, BeforeValidator(_label_value)]


class Sample(BaseModel, frozen=True, strict=True, hide_input_in_errors=True):
    """A line of the dataset: a transcript and its objective or goal file."""

    path: _Text
    objective: _Text | None = None
    goal: _Text | None = None
    label: _Label
    """Whether the work is really complete."""
    line: int = 0
    folder: Path = Path()
    """The folder of the dataset; paths are relative to it."""

    @model_validator(mode="after")
    def _has_one_goal(self) -> Self:
        if (self.objective is None) == (self.goal is None):
            raise ValueError("either objective or goal (a goal file) is needed")
        return self


def read_dataset(path: Path) -> list[Sample]:
    """Return the samples. Raise UsageError with the line of the first invalid one."""
    try:
        # Some editors write a byte order mark. Not splitlines(), which also splits at
        # characters inside JSON strings.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read the dataset: {error}", _FORM) from None
    samples = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            sample = Sample.model_validate_json(text)
        except ValidationError as error:
            problem = first_problem(error)
            raise UsageError(f"{path}:{number}  {problem}", _FORM) from None
        place = {"line": number, "folder": path.parent}
        samples.append(sample.model_copy(update=place))
    if not samples:
        raise UsageError(f"{path}: the dataset has no samples", _FORM)
    return samples
