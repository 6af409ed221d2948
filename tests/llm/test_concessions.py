"""Which refusal leads to which plainer request, and which to none."""

from __future__ import annotations

import pytest

from goalrunner.llm.call import Concessions
from goalrunner.llm.failure import ProviderFailure
from goalrunner.llm.transport import Request

SCHEMA = {"type": "object"}


def _request(concessions: Concessions, *, schema: bool = True, temperature: float | None = 0.0) -> Request:
    return concessions.apply(Request((), temperature=temperature), SCHEMA if schema else None, "verdict")


def test_the_forms_of_a_schema() -> None:
    forms = [_request(Concessions(schema_form=form)).response_format for form in ("json_schema", "json_object", "none")]
    assert forms == [
        {"type": "json_schema", "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True}},
        {"type": "json_object", "schema": SCHEMA},
        None,
    ]


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_a_refused_schema_is_asked_for_in_a_plainer_form_down_to_none(status: int) -> None:
    failure = ProviderFailure("no", status=status)
    first = Concessions()
    second = first.after(failure, _request(first), proved=False)
    assert second == Concessions(schema_form="json_object")
    third = second.after(failure, _request(second), proved=False)
    assert third == Concessions(schema_form="none")
    assert third.after(failure, _request(third), proved=False) is None


@pytest.mark.parametrize(("status", "words"), [(429, ""), (503, ""), (401, ""), (400, "maximum context length")])
def test_other_failures_are_not_taken_for_a_refusal(status: int, words: str) -> None:
    concessions = Concessions()
    assert concessions.after(ProviderFailure(words, status=status), _request(concessions), proved=False) is None


def test_a_500_is_about_load_where_the_schema_has_worked_before() -> None:
    concessions = Concessions()
    assert concessions.after(ProviderFailure("", status=500), _request(concessions), proved=True) is None


def test_a_request_without_schema_has_nothing_to_concede() -> None:
    concessions = Concessions()
    assert (
        concessions.after(ProviderFailure("no", status=400), _request(concessions, schema=False), proved=False) is None
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Unsupported value: 'temperature' does not support 0.0", Concessions(temperature=False)),
        ("unknown field stream_options", Concessions(stream_usage=False)),
    ],
)
def test_a_refused_parameter_is_left_out_and_the_schema_kept(words: str, expected: Concessions) -> None:
    concessions = Concessions()
    assert concessions.after(ProviderFailure(words, status=400), _request(concessions), proved=False) == expected


def test_what_is_conceded_is_not_sent() -> None:
    request = _request(Concessions(temperature=False, stream_usage=False))
    assert (request.temperature, request.stream_usage) == (None, False)
