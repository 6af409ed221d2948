"""What a callable may return."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.verdict import ValidationOutcome
from goalrunner.validators.child import callable_outcome
from goalrunner.validators.python_validators import CallableValidator
from tests.support.agents import validation


@dataclass
class Lookalike:
    passed: bool = True
    feedback: str = ""


class AlwaysEqual:
    passed = True
    feedback = ""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(True)

    def __bool__(self) -> bool:
        return True


FORGED = ValidationOutcome.model_construct(passed="yes", feedback=None)  # type: ignore[arg-type]

ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.binary(),
        st.sampled_from(
            [
                "true",
                "True",
                "passed",
                "yes",
                1,
                1.0,
                Lookalike(),
                AlwaysEqual(),
                FORGED,
                ValidationOutcome,
            ]
        ),
        st.builds(
            ValidationOutcome,
            passed=st.booleans(),
            feedback=st.one_of(st.none(), st.text()),
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(
            st.sampled_from(["passed", "feedback", "score", ""]), inner, max_size=4
        ),
    ),
    max_leaves=6,
)


def is_green(value: Any) -> bool:
    """The rule again, in other words."""
    if type(value) is bool:
        return value
    if type(value) in (ValidationOutcome, Lookalike, AlwaysEqual):
        return type(value.passed) is bool and value.passed
    if (
        type(value) is not dict
        or "passed" not in value
        or value.keys() - {"passed", "feedback"}
    ):
        return False
    return (
        type(value["passed"]) is bool
        and value["passed"]
        and isinstance(value.get("feedback"), str | None)
    )


@given(ANYTHING)
def test_only_what_says_so_is_green(value: Any) -> None:
    assert (callable_outcome(value)[0] == "passed") == is_green(value)


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (True, ("passed", "")),
        (False, ("red", "")),
        ({"passed": True}, ("passed", "")),
        ({"passed": False, "feedback": "Too long."}, ("red", "Too long.")),
        ({"passed": True, "feedback": None}, ("passed", "")),
        (ValidationOutcome(passed=False, feedback="No."), ("red", "No.")),
        (ValidationOutcome(passed=True), ("passed", "")),
        (ValidationOutcome(False, "No."), ("red", "No.")),
        (Lookalike(passed=False, feedback="No."), ("red", "No.")),
        (Lookalike(), ("passed", "")),
        (AlwaysEqual(), ("passed", "")),
    ],
)
def test_the_forms_that_count(value: object, outcome: tuple[str, str]) -> None:
    assert callable_outcome(value) == outcome


REFUSED: list[object] = [
    None,
    1,
    "true",
    [],
    {},
    {"passed": 1},
    {"passed": "true"},
    {"feedback": ""},
    {"passed": True, "score": 1.0},
    {"passed": True, "feedback": 3},
    (True, ""),
    Lookalike(passed=1),  # type: ignore[arg-type]
    SimpleNamespace(passed=True),
    Lookalike,
    FORGED,
    ValidationOutcome,
]


@pytest.mark.parametrize(
    "value", REFUSED, ids=lambda value: repr(value).split(" at 0x")[0]
)
async def test_anything_else_is_red_in_process(value: object, tmp_path: Path) -> None:
    result, output = await CallableValidator(lambda response, agent: value).validate(
        validation(tmp_path, tmp_path)
    )
    assert (result.passed, result.reason, output) == (False, "invalid_result", None)
    assert result.feedback.startswith("the validator returned ")
