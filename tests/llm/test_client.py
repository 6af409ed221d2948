"""Retries of a call, and plainer forms of a refused request."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from goalrunner.core.activity import Activity, RetryScheduled, context_with
from goalrunner.core.errors import ModelError, ProviderUnavailable
from goalrunner.core.outcome import Usage
from goalrunner.llm import LLM, Reply, client
from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.request_form import RequestForm
from goalrunner.llm.requests import Request


class Attempts(LLM):
    """Fails with the given failures, then answers."""

    def __init__(self, *failures: ProviderFailure) -> None:
        super().__init__("x/y")
        self.left = list(failures)
        self.slept: list[float] = []

    async def attempt(self, request: Request) -> Reply:
        if self.left:
            raise self.left.pop(0)
        return Reply("answer", (), Usage(), "stop")

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def retries(self) -> int:
        return self.usage.retries

    async def run(self, retries: int = 5, jitter: float = 1.0) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "RETRIES", retries)
            patch.setattr(client, "sleep", self.sleep)
            patch.setattr("random.random", lambda: jitter)
            return (await self.complete([])).text


def _busy(retry_after: float | None = None) -> ProviderFailure:
    return ProviderFailure("busy", status=503, retry_after=retry_after)


async def test_waits_double_up_to_the_cap() -> None:
    attempts = Attempts(*[_busy() for _ in range(9)])
    assert await attempts.run(retries=9) == "answer"
    assert attempts.slept == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert attempts.retries == 9


async def test_jitter_spreads_a_wait_over_its_upper_half() -> None:
    attempts = Attempts(_busy(), _busy())
    await attempts.run(jitter=0.0)
    assert attempts.slept == [0.25, 0.5]


@pytest.mark.parametrize(
    ("said", "waited"), [(0.0, 0.0), (7.0, 7.0), (120.0, 120.0), (-3.0, 0.0)]
)
async def test_retry_after_is_honoured_within_reason(
    said: float, waited: float
) -> None:
    attempts = Attempts(_busy(said))
    await attempts.run(jitter=0.0)
    assert attempts.slept == [waited]


async def test_a_call_does_not_wait_for_hours() -> None:
    attempts = Attempts(_busy(7_200.0))
    with pytest.raises(ProviderUnavailable) as caught:
        await attempts.run()
    assert attempts.slept == []
    outage = caught.value.outage
    assert outage is not None
    assert outage.resets_at is not None
    assert 7_100 < (outage.resets_at - datetime.now(UTC)).total_seconds() <= 7_200


@pytest.mark.parametrize("kind", list(FailureKind))
async def test_only_what_time_may_cure_is_tried_again(kind: FailureKind) -> None:
    passing = {"rate limit", "server error", "timeout", "connection", "cut stream"}
    attempts = Attempts(ProviderFailure("no", kind=kind))
    if kind.value in passing:
        assert await attempts.run() == "answer"
        assert attempts.retries == 1
    else:
        with pytest.raises(ModelError):
            await attempts.run()
        assert attempts.retries == 0


async def test_the_last_failure_is_raised_when_the_retries_are_used_up() -> None:
    attempts = Attempts(_busy(), _busy(), ProviderFailure("the last", status=500))
    with pytest.raises(ModelError, match="the last"):
        await attempts.run(retries=2)
    assert attempts.retries == 2


async def test_cancellation_passes_through_a_wait() -> None:
    attempts = Attempts(_busy())
    task = asyncio.create_task(attempts.complete([]))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


SCHEMA = {"type": "object"}
ASKED = Request((), schema=SCHEMA, schema_name="verdict", temperature=0.0)


def test_the_forms_of_a_schema() -> None:
    forms = [
        RequestForm(schema=form).fields(ASKED).get("response_format")
        for form in ("json_schema", "json_object", "none")
    ]
    assert forms == [
        {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True},
        },
        {"type": "json_object", "schema": SCHEMA},
        None,
    ]


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_a_refused_schema_is_asked_for_in_a_plainer_form_down_to_none(
    status: int,
) -> None:
    failure = ProviderFailure("no", status=status)
    second = RequestForm().after(failure, ASKED)
    assert second == RequestForm(schema="json_object")
    third = second.after(failure, ASKED)
    assert third == RequestForm(schema="none")
    assert third.after(failure, ASKED) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [(429, ""), (503, ""), (401, ""), (400, "maximum context length")],
)
def test_other_failures_are_not_taken_for_a_refusal(status: int, words: str) -> None:
    assert RequestForm().after(ProviderFailure(words, status=status), ASKED) is None


def test_a_500_is_about_load_where_the_schema_has_worked_before() -> None:
    assert (
        RequestForm(schema_proved=True).after(ProviderFailure("", status=500), ASKED)
        is None
    )


def test_a_request_without_schema_has_nothing_to_concede() -> None:
    assert RequestForm().after(ProviderFailure("no", status=400), Request(())) is None


def test_a_refused_temperature_is_left_out_and_the_schema_kept() -> None:
    failure = ProviderFailure(
        "Unsupported value: 'temperature' does not support 0.0", status=400
    )
    plainer = RequestForm().after(failure, ASKED)
    assert plainer == RequestForm(temperature=False)
    assert "temperature" not in plainer.fields(ASKED)


async def test_a_retry_is_announced_with_its_reason_and_pause() -> None:
    seen: list[Activity] = []
    attempts = Attempts(
        ProviderFailure("slow down", status=429, retry_after=12.0),
        ProviderFailure("x", kind=FailureKind.CUT),
    )
    task = asyncio.create_task(
        attempts.run(jitter=0.0), context=context_with(seen.append)
    )
    assert await task == "answer"
    assert seen == [
        RetryScheduled("429 rate limit", 12.0, 1, 5),
        RetryScheduled("cut stream", 0.5, 2, 5),
    ]
