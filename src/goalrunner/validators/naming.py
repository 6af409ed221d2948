"""Short names for validators that were given none."""

from __future__ import annotations

from goalrunner.model.goal import ValidatorSpec
from goalrunner.shell import label

_LONGEST = 40


def name_of(spec: ValidatorSpec) -> str:
    """Return its name, or one made from what it runs: `pytest -q` is "pytest", `checks:covers` is "covers"."""
    if spec.name:
        return spec.name
    if spec.python is not None:
        return (spec.python.rpartition(":")[2] or spec.python)[:_LONGEST]
    return label(spec.run or "")[:_LONGEST] or "check"
