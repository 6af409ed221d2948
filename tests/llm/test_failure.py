"""Failures of model calls: their kinds, LiteLLM's exceptions, and the messages for people."""

from __future__ import annotations

import pytest

from goalrunner.core.errors import (
    AuthenticationFailed,
    ContextWindowExceeded,
    ModelError,
    ModelNotFound,
    ProviderUnavailable,
    RequestRejected,
)
from goalrunner.llm.failure import (
    Endpoint,
    FailureKind,
    ProviderFailure,
    classify,
    explain,
    failure_from,
    own_words,
    retry_after,
    shorten_failure,
)

QUOTA = "You exceeded your current quota, please check your plan and billing details."
ENDPOINT = Endpoint(variable="OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "", FailureKind.AUTHENTICATION),
        (403, "", FailureKind.AUTHENTICATION),
        (
            400,
            "API key not valid. Please pass a valid API key.",
            FailureKind.AUTHENTICATION,
        ),
        (404, "", FailureKind.MODEL),
        (400, "The model `gpt-9` does not exist", FailureKind.MODEL),
        (400, "LLM Provider NOT provided.", FailureKind.MODEL),
        (
            400,
            "This model's maximum context length is 8192 tokens",
            FailureKind.CONTEXT,
        ),
        (
            400,
            "prompt is too long: 210000 tokens > 200000 maximum",
            FailureKind.CONTEXT,
        ),
        (400, "the request exceeds the available context size", FailureKind.CONTEXT),
        (413, "", FailureKind.CONTEXT),
        (402, "", FailureKind.QUOTA),
        (400, "Your credit balance is too low", FailureKind.QUOTA),
        (429, QUOTA, FailureKind.QUOTA),
        (429, "insufficient_quota", FailureKind.QUOTA),
        (429, f"{QUOTA} Please retry in 26.5s.", FailureKind.RATE_LIMIT),
        (429, "slow down", FailureKind.RATE_LIMIT),
        (400, "messages: roles must alternate", FailureKind.REJECTED),
        (
            422,
            "response_format of type json_schema is not supported",
            FailureKind.REJECTED,
        ),
        (408, "", FailureKind.TIMEOUT),
        (500, "boom", FailureKind.SERVER),
        (500, "the request exceeds the available context size", FailureKind.CONTEXT),
        (503, "", FailureKind.SERVER),
        (529, "Overloaded", FailureKind.SERVER),
        (None, "", FailureKind.CONNECTION),
    ],
)
def test_the_kind_follows_from_status_and_words(
    status: int | None, message: str, kind: FailureKind
) -> None:
    assert classify(status, message) is kind


@pytest.mark.parametrize(
    ("failure", "error", "told"),
    [
        (
            ProviderFailure("Incorrect API key provided.", status=401),
            AuthenticationFailed,
            (
                "the key for openai/x was not accepted (401): Incorrect API key provided.\n"
                "Export the key as OPENAI_API_KEY, or name its variable with api_key_env in [agent]."
            ),
        ),
        (
            ProviderFailure("no such thing", status=404),
            ModelNotFound,
            (
                "the model openai/x was not found (404): no such thing\n"
                "Write provider/model as LiteLLM names it, for example openai/gpt-5-mini; see [agent] model and api_base."
            ),
        ),
        (
            ProviderFailure("maximum context length is 5", status=400),
            ContextWindowExceeded,
            (
                "the request is too long for openai/x (400): maximum context length is 5\n"
                "Choose a model with a larger context window in [agent] model."
            ),
        ),
        (
            ProviderFailure("bad", status=400),
            RequestRejected,
            (
                "the provider of openai/x refused the request (400): bad\n"
                "Check [agent] params and api_base: they are sent unchanged."
            ),
        ),
        (
            ProviderFailure(QUOTA, status=429),
            RequestRejected,
            (
                f"the provider of openai/x reports a quota or billing error (429): {QUOTA}\n"
                "Top up the account or raise its limit at the provider, or use another key."
            ),
        ),
        (
            ProviderFailure("slow down", status=429),
            ProviderUnavailable,
            (
                "openai/x did not answer after 5 retries: rate limit (429): slow down\n"
                "Wait and run again, or ask the provider for a higher rate limit."
            ),
        ),
    ],
)
def test_an_error_says_what_and_why_and_the_line_that_fixes_it(
    failure: ProviderFailure, error: type[ModelError], told: str
) -> None:
    explained = explain(failure, "openai/x", "agent", ENDPOINT, retries=5)
    assert type(explained) is error
    assert str(explained) == told


def test_a_missing_key_is_not_called_a_wrong_one() -> None:
    endpoint = Endpoint(variable="OPENAI_API_KEY", key_known=False)
    explained = explain(ProviderFailure("", status=401), "openai/x", "judge", endpoint)
    assert explained.message == "the key for openai/x is missing (401)"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("litellm.RateLimitError: RateLimitError: OpenAIException - slow", "slow"),
        ("two\nlines", "two lines"),
        ("Error code: 400 - bad", "bad"),
        ("no provider. Pass in the LLM provider you want", "no provider"),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_a_providers_sentence_is_one_short_line_without_keys(
    message: str, shown: str
) -> None:
    assert shorten_failure(message) == shown


class APIConnectionError(Exception):
    """Named as LiteLLM's; its status is made up there."""

    status_code = 500


class Limited(Exception):
    """A 429 with its headers."""

    status_code = 429

    def __init__(self, message: str, **headers: str) -> None:
        super().__init__(message)
        self.litellm_response_headers = {
            name.replace("_", "-"): value for name, value in headers.items()
        }


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (
            """AnthropicException - b'{"type":"error","error":{"message":"it\\'s over"}}'""",
            "it's over",
        ),
        (
            """GeminiException - b'{\\n "error": {"code": 400, "message": "bad key"}\\n}\\n'""",
            "bad key",
        ),
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
    assert retry_after(Limited("", retry_after="2.5")) == 2.5
    assert retry_after(Limited("", retry_after="soon")) is None
    assert retry_after(Limited(""), "Please retry in 26.5s.") == 26.5
    assert retry_after(Limited(""), "try again in 300ms") == 0.3
    assert retry_after(Limited(""), "slow down") is None


def test_reset_headers_of_a_limit_count_for_a_limit_only() -> None:
    headers = {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}
    error = Limited("")
    error.litellm_response_headers, error.status_code = headers, 429
    assert retry_after(error) == pytest.approx(360)
    error.status_code = 500
    assert retry_after(error) is None


def test_words_never_ask_for_hours() -> None:
    assert retry_after(Limited(""), "try again in 500 m") == 120.0


@pytest.mark.parametrize(
    ("failure", "outage"),
    [
        (ProviderFailure("slow down", status=429), ("limit", "429 rate limit", False)),
        (
            ProviderFailure(QUOTA, status=429, retry_after=7_200.0),
            ("limit", "429 rate limit", True),
        ),
        (
            ProviderFailure("Overloaded", status=529),
            ("overload", "529 overloaded", False),
        ),
        (
            ProviderFailure("down", status=503, retry_after=600.0),
            ("overload", "503 server error", True),
        ),
        (
            ProviderFailure("late", kind=FailureKind.TIMEOUT),
            ("overload", "timeout", False),
        ),
        (ProviderFailure("no route"), ("overload", "connection", False)),
        (
            ProviderFailure("forever", status=429, retry_after=1e300),
            ("limit", "429 rate limit", False),
        ),
    ],
)
def test_a_failure_that_passes_says_until_when(
    failure: ProviderFailure, outage: tuple[str, str, bool]
) -> None:
    found = explain(failure, "openai/x", "agent", ENDPOINT).outage
    assert found is not None
    assert (found.kind, found.reason, found.resets_at is not None) == outage
    assert found.was_retried


@pytest.mark.parametrize("status", [400, 401, 402, 404])
def test_another_failure_does_not_pass(status: int) -> None:
    assert (
        explain(
            ProviderFailure("no", status=status), "openai/x", "agent", ENDPOINT
        ).outage
        is None
    )
    assert (
        explain(
            ProviderFailure(QUOTA, status=429), "openai/x", "agent", ENDPOINT
        ).outage
        is None
    )


@pytest.mark.parametrize(
    ("error", "begun", "kind"),
    [
        (APIConnectionError("peer closed connection"), True, FailureKind.CUT),
        (APIConnectionError("Connection error."), False, FailureKind.CONNECTION),
        (ConnectionResetError(104, "reset"), False, FailureKind.CONNECTION),
        (TimeoutError("late"), False, FailureKind.TIMEOUT),
        (KeyError("choices"), False, FailureKind.REJECTED),
        (APIConnectionError("Missing credentials."), False, FailureKind.AUTHENTICATION),
        (Limited("slow"), False, FailureKind.RATE_LIMIT),
    ],
)
def test_an_exception_means_one_kind_of_failure(
    error: Exception, begun: bool, kind: FailureKind
) -> None:
    assert failure_from(error, begun=begun).kind is kind


def test_a_status_that_no_provider_sent_is_not_shown() -> None:
    assert (
        failure_from(APIConnectionError("Connection error."), begun=False).status
        is None
    )
    assert failure_from(Limited("slow", x="y"), begun=False).status == 429
