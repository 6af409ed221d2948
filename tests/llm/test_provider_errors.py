"""LiteLLM's exceptions, and what providers put into them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from goalrunner.llm.failure import FailureKind
from goalrunner.llm.provider_errors import failure_from, own_words, retry_after


class APIConnectionError(Exception):
    """Named as LiteLLM's; its status is made up there."""

    status_code = 500


class Limited(Exception):
    """A 429 with its headers."""

    status_code = 429

    def __init__(self, message: str, **headers: str) -> None:
        super().__init__(message)
        self.litellm_response_headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("""AnthropicException - b'{"type":"error","error":{"message":"it\\'s over"}}'""", "it's over"),
        ("""GeminiException - b'{\\n "error": {"code": 400, "message": "bad key"}\\n}\\n'""", "bad key"),
        ('X - {"error": "plain"}', "plain"),
        ('X - {"detail": "not here"}', "not here"),
        ('X - {"detail": [1]}', 'X - {"detail": [1]}'),
        ("no JSON { here }", "no JSON { here }"),
        ("b'{broken}'", "b'{broken}'"),
        ("just words", "just words"),
    ],
)
def test_a_providers_words_are_found_in_its_body(shown: str, words: str) -> None:
    assert own_words(shown) == words


def test_the_wait_is_read_from_header_or_words() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert retry_after(Limited("", retry_after="2.5")) == 2.5
    assert 55 < (retry_after(Limited("", retry_after=soon)) or 0) <= 60
    assert retry_after(Limited("", retry_after="Wed, 21 Oct 2015 07:28:00 GMT")) == 0
    assert retry_after(Limited("", retry_after="soon")) is None
    assert retry_after(Limited(""), "Please retry in 26.5s.") == 26.5
    assert retry_after(Limited(""), "try again in 300ms") == 0.3
    assert retry_after(Limited(""), "slow down") is None


@pytest.mark.parametrize(
    ("error", "begun", "kind"),
    [
        (APIConnectionError("peer closed connection"), True, FailureKind.CUT),
        (APIConnectionError("Connection error."), False, FailureKind.CONNECTION),
        (APIConnectionError("'X' object has no attribute 'y'"), False, FailureKind.SERVER),
        (ConnectionResetError(104, "reset"), False, FailureKind.CONNECTION),
        (TimeoutError("late"), False, FailureKind.TIMEOUT),
        (KeyError("choices"), False, FailureKind.REJECTED),
        (APIConnectionError("Missing credentials."), False, FailureKind.AUTHENTICATION),
        (Limited("slow"), False, FailureKind.RATE_LIMIT),
    ],
)
def test_an_exception_means_one_kind_of_failure(error: Exception, begun: bool, kind: FailureKind) -> None:
    assert failure_from(error, begun=begun).kind is kind


def test_a_status_that_no_provider_sent_is_not_shown() -> None:
    assert failure_from(APIConnectionError("Connection error."), begun=False).status is None
    assert failure_from(Limited("slow", x="y"), begun=False).status == 429
