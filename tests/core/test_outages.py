"""What an HTTP status says about later requests, and when a limit resets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.outages import (
    outage_of,
    outage_of_error,
    reset_time,
    time_of_epoch,
)

NOW = datetime(2026, 11, 27, 5, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (429, "limit", "429 rate limit"),
        (529, "overload", "529 overloaded"),
        (503, "overload", "503 server error"),
        (408, "overload", "408 try again"),
    ],
)
def test_a_status_that_passes_is_an_outage(status: int, kind: str, reason: str) -> None:
    outage = outage_of(status)
    assert outage is not None
    assert (outage.kind, outage.reason) == (kind, reason)


@pytest.mark.parametrize(
    "status", [200, 400, 401, 402, 403, 404, 413, 422, 600, None, True, "429", 429.0]
)
def test_another_status_is_none(status: object) -> None:
    assert outage_of(status) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7200"}, 7200),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Fri, 27 Nov 2026 07:00:00 GMT"}, 7200),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-27T06:00:00Z"}, 3600),
        ({"x-ratelimit-reset": "1795759200000"}, 3600),
        ({"X-RateLimit-Reset": "1795759200"}, 3600),
        ({"retry-after": "5", "x-ratelimit-reset-tokens": "1h"}, 5),
        (
            {
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "1h",
                "x-ratelimit-remaining-tokens": "10",
            },
            360,
        ),
    ],
)
def test_headers_name_the_time_of_the_reset(
    headers: dict[str, str], seconds: float
) -> None:
    assert reset_time(headers, NOW) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"retry-after": ""},
        {"retry-after": "soon"},
        {"retry-after": "-3"},
        {"retry-after": "nan"},
        {"retry-after": "9" * 400},
        {"retry-after": "Thu, 26 Nov 2026 07:00:00 GMT"},
        {"x-ratelimit-reset": "1795750000"},
        {"x-ratelimit-reset-tokens": "1h", "x-ratelimit-remaining-tokens": "10"},
    ],
)
def test_without_a_later_time_the_reset_is_unknown(headers: dict[str, str]) -> None:
    assert reset_time(headers, NOW) is None


def test_limits_count_for_a_refusal_by_a_limit_only() -> None:
    assert reset_time({"x-ratelimit-reset-tokens": "1h"}, NOW, limited=False) is None


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "x-ratelimit-reset", "a-ratelimit-remaining"]),
        st.text(),
    )
)
def test_no_header_does_harm(headers: dict[str, str]) -> None:
    time = reset_time(headers, NOW)
    assert time is None or time > NOW


@pytest.mark.parametrize(
    "value",
    [None, "1795759200", True, 0, -1, 1e8, 1e300, float("nan"), float("inf"), 10**400],
)
def test_what_is_no_epoch_is_no_time(value: object) -> None:
    assert time_of_epoch(value) is None


class _ClientError(Exception):
    """An exception of the client of a provider."""

    def __init__(self, **fields: object) -> None:
        super().__init__("refused")
        vars(self).update(fields)


class _Response:
    status_code = 429
    headers = {"Retry-After": "60"}  # noqa: RUF012


@pytest.mark.parametrize(
    ("error", "kind", "seconds"),
    [
        (_ClientError(status_code=429), "limit", None),
        (_ClientError(status_code=429, headers={"retry-after": "60"}), "limit", 60),
        (_ClientError(response=_Response()), "limit", 60),
        (_ClientError(code=503), "overload", None),
        (_ClientError(status_code=400), "", None),
        (_ClientError(code="rate_limit"), "", None),
        (OSError(11, "again"), "", None),
    ],
)
def test_an_exception_of_a_client_tells_an_outage(
    error: Exception, kind: str, seconds: float | None
) -> None:
    wrapper = RuntimeError("the framework failed")
    wrapper.__cause__ = error
    for item in (error, wrapper):
        outage = outage_of_error(item, NOW)
        assert (outage.kind if outage else "") == kind
        resets_at = outage.resets_at if outage else None
        assert resets_at == (NOW + timedelta(seconds=seconds) if seconds else None)
