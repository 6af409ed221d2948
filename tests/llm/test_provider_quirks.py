"""Which refusal leads to which plainer request."""

from __future__ import annotations

import pytest

from goalrunner.llm.call import ProviderQuirks
from goalrunner.llm.failure import ProviderFailure
from goalrunner.llm.transport import Request

SCHEMA = {"type": "object"}


def _request(quirks: ProviderQuirks, *, schema: bool = True, temperature: float | None = 0.0) -> Request:
    return quirks.apply(Request((), temperature=temperature), SCHEMA if schema else None, "verdict")


def test_the_forms_of_a_schema() -> None:
    forms = [
        _request(ProviderQuirks(schema_form=form)).response_format for form in ("json_schema", "json_object", "none")
    ]
    assert forms == [
        {"type": "json_schema", "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True}},
        {"type": "json_object", "schema": SCHEMA},
        None,
    ]


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_a_refused_schema_is_asked_for_in_a_plainer_form_down_to_none(status: int) -> None:
    failure = ProviderFailure("no", status=status)
    first = ProviderQuirks()
    second = first.after(failure, _request(first))
    assert second == ProviderQuirks(schema_form="json_object")
    third = second.after(failure, _request(second))
    assert third == ProviderQuirks(schema_form="none")
    assert third.after(failure, _request(third)) is None


@pytest.mark.parametrize(("status", "words"), [(429, ""), (503, ""), (401, ""), (400, "maximum context length")])
def test_other_failures_are_not_taken_for_a_refusal(status: int, words: str) -> None:
    quirks = ProviderQuirks()
    assert quirks.after(ProviderFailure(words, status=status), _request(quirks)) is None


def test_a_500_is_about_load_where_the_schema_has_worked_before() -> None:
    quirks = ProviderQuirks(schema_proved=True)
    assert quirks.after(ProviderFailure("", status=500), _request(quirks)) is None


def test_a_request_without_schema_has_nothing_to_concede() -> None:
    quirks = ProviderQuirks()
    assert quirks.after(ProviderFailure("no", status=400), _request(quirks, schema=False)) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Unsupported value: 'temperature' does not support 0.0", ProviderQuirks(temperature=False)),
        ("unknown field stream_options", ProviderQuirks(stream_usage=False)),
    ],
)
def test_a_refused_parameter_is_left_out_and_the_schema_kept(words: str, expected: ProviderQuirks) -> None:
    quirks = ProviderQuirks()
    assert quirks.after(ProviderFailure(words, status=400), _request(quirks)) == expected


def test_what_is_conceded_is_not_sent() -> None:
    request = _request(ProviderQuirks(temperature=False, stream_usage=False))
    assert (request.temperature, request.stream_usage) == (None, False)


@pytest.mark.parametrize(
    ("failure", "quirks"),
    [
        (ProviderFailure("This model only supports stream mode.", status=400), ProviderQuirks(whole=False)),
        (ProviderFailure("upstream request timeout", status=504), ProviderQuirks(whole=False)),
        (ProviderFailure("a timeout occurred", status=524), ProviderQuirks(whole=False)),
        (ProviderFailure("bad gateway", status=502), None),
    ],
)
def test_an_answer_that_cannot_come_whole_is_streamed(failure: ProviderFailure, quirks: ProviderQuirks | None) -> None:
    request = ProviderQuirks().apply(Request((), streaming=False), None, "")
    assert ProviderQuirks().after(failure, request) == quirks
    streamed = ProviderQuirks().apply(Request((), streaming=True), None, "")
    assert ProviderQuirks().after(failure, streamed) is None
