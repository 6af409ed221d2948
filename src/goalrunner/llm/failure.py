"""Failed model calls."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from goalrunner.core.errors import (
    AuthenticationFailed,
    ContextWindowExceeded,
    ModelError,
    ModelNotFound,
    Outage,
    ProviderUnavailable,
    RequestRejected,
    one_line,
)
from goalrunner.core.outages import RATE_LIMIT, outage_of, reset_time

LONGEST_RETRY_AFTER = 120.0
"""Seconds that a call waits if the provider asks for it.

A call that would have to wait longer fails at once.
"""
# Seconds; a longer wait is a mistake of the provider and has no date.
_LONGEST_WAIT = 1e9


class FailureKind(StrEnum):
    """The cause of a failure."""

    AUTHENTICATION = "authentication"
    MODEL = "model"
    CONTEXT = "context"
    QUOTA = "quota"
    REJECTED = "rejected"
    RATE_LIMIT = "rate limit"
    SERVER = "server error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    CUT = "cut stream"


class ProviderFailure(Exception):
    """A failed call.

    It has the HTTP status if there was one, the provider's message, and its Retry-After
    in seconds. `kind` replaces the classification by status and message.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        kind: FailureKind | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.kind = kind or classify(status, message)
        # A quota that resets is a limit, for which waiting helps.
        if self.kind is FailureKind.QUOTA and status == RATE_LIMIT and self.is_long:
            self.kind = FailureKind.RATE_LIMIT

    @property
    def is_long(self) -> bool:
        """Whether the provider asks for a longer wait than a call may take."""
        return self.retry_after is not None and self.retry_after > LONGEST_RETRY_AFTER


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_CONTEXT = _words(
    r"context.{0,10}(length|window|size|limit)",
    r"(maximum|available) context",
    r"(prompt|input) is too long|too many tokens",
    r"reduce the length|input tokens? (exceed|count)|maximum number of tokens",
)
_KEY = _words(
    r"(invalid|incorrect|missing|no|wrong|not valid)"
    r".{0,30}(api[_ -]?key|credentials|token provided)",
    r"api[_ -]?key"
    r".{0,40}(must be set|is required|not valid|invalid|missing|not found)",
)
_QUOTA = _words(
    r"insufficient|exceeded your current quota|credit balance|billing",
    r"payment required|out of credits",
)
# Words of a rate limit that passes by itself; some providers call that a quota too.
_SOON = _words(r"(re)?try (again )?(in|after)|retryDelay|per[ _-]?(second|minute)")
_MODEL = _words(
    r"LLM Provider NOT provided",
    r"model.{0,80}(not found|(does not|doesn't|not) exist|unknown)",
    r"(no such|unknown|invalid) model",
    r"model_not_found|not a valid model",
)
_NO_CONNECTION = _words(
    r"connect|disconnected|incomplete chunked|name or service not known"
)
_BY_WORDS = {
    _CONTEXT: FailureKind.CONTEXT,
    _KEY: FailureKind.AUTHENTICATION,
    _QUOTA: FailureKind.QUOTA,
    _MODEL: FailureKind.MODEL,
}
_BY_STATUS = {
    None: FailureKind.CONNECTION,
    401: FailureKind.AUTHENTICATION,
    402: FailureKind.QUOTA,
    403: FailureKind.AUTHENTICATION,
    404: FailureKind.MODEL,
    408: FailureKind.TIMEOUT,
    409: FailureKind.SERVER,
    413: FailureKind.CONTEXT,
    425: FailureKind.SERVER,
}


def classify(status: int | None, message: str) -> FailureKind:
    """Return the kind of a failure by its HTTP status.

    If the status is ambiguous, the message decides.
    """
    if status is None or status in _BY_STATUS:
        return _BY_STATUS[status]
    if status == RATE_LIMIT:
        is_quota = _QUOTA.search(message) and not _SOON.search(message)
        return FailureKind.QUOTA if is_quota else FailureKind.RATE_LIMIT
    if 400 <= status < 500:
        for words, kind in _BY_WORDS.items():
            if words.search(message):
                return kind
        return FailureKind.REJECTED
    # Some local servers report a full context as their own error.
    if status == 500 and _CONTEXT.search(message):
        return FailureKind.CONTEXT
    return FailureKind.SERVER


@dataclass(frozen=True)
class Endpoint:
    """The address and key of requests. None leaves the choice to LiteLLM."""

    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    variable: str = ""
    """The variable that the key comes from, or would come from."""
    key_known: bool = True
    """Whether there is a key."""


# Type, message and hint of errors for which a repetition cannot help.
_ERRORS: dict[FailureKind, tuple[type[ModelError], str, str]] = {
    FailureKind.AUTHENTICATION: (
        AuthenticationFailed,
        "the key for {model} {state}",
        (
            "Export the key as {variable}, "
            "or name its variable with api_key_env in [{account}]."
        ),
    ),
    FailureKind.MODEL: (
        ModelNotFound,
        "the model {model} was not found",
        (
            "Write provider/model as LiteLLM names it, for example openai/gpt-5-mini; "
            "see [{account}] model and api_base."
        ),
    ),
    FailureKind.CONTEXT: (
        ContextWindowExceeded,
        "the request is too long for {model}",
        "Choose a model with a larger context window in [{account}] model.",
    ),
    FailureKind.QUOTA: (
        RequestRejected,
        "the provider of {model} reports a quota or billing error",
        "Top up the account or raise its limit at the provider, or use another key.",
    ),
    FailureKind.REJECTED: (
        RequestRejected,
        "the provider of {model} refused the request",
        "Check [{account}] params and api_base: they are sent unchanged.",
    ),
}

TRANSIENT = {
    FailureKind.RATE_LIMIT: (
        "Wait and run again, or ask the provider for a higher rate limit."
    ),
    FailureKind.SERVER: (
        "Wait and run again; the provider's status page may say more."
    ),
    FailureKind.TIMEOUT: (
        "Run again, or allow more seconds with timeout in [{account}.params]."
    ),
    FailureKind.CONNECTION: (
        "Check the network, and [{account}] api_base if you use your own server."
    ),
    FailureKind.CUT: (
        "Run again; if it happens again, a proxy may cut off long answers."
    ),
}
"""The kinds for which a repetition may help, with their hints."""


def explain(
    failure: ProviderFailure,
    model: str,
    account: str,
    endpoint: Endpoint,
    retries: int = 0,
) -> ModelError:
    """Return the error for users.

    It has one line with the failure and its cause, and one line with the fix.
    """
    kind = failure.kind
    cause = _cause(failure, endpoint)
    if kind in TRANSIENT:
        where = f" at {endpoint.api_base}" if endpoint.api_base else ""
        after = ""
        if retries:
            after = f" after {retries} {'retry' if retries == 1 else 'retries'}"
        return ProviderUnavailable(
            f"{model}{where} did not answer{after}: {kind}{cause}",
            TRANSIENT[kind].format(account=account),
            outage=_outage(failure),
        )
    error, message, hint = _ERRORS[kind]
    state = "was not accepted" if endpoint.key_known else "is missing"
    variable = endpoint.variable or "the provider's own"
    return error(
        message.format(model=model, state=state) + cause,
        hint.format(account=account, variable=variable),
    )


def _cause(failure: ProviderFailure, endpoint: Endpoint) -> str:
    """Return status and words of a failure, as the end of a message."""
    # Not at the top: redaction is only needed for errors.
    from goalrunner.records.redaction import Redactor

    status = f" ({failure.status})" if failure.status else ""
    redactor = Redactor(os.environ, names=(endpoint.variable,))
    words = shorten_failure(redactor.text(failure.message))
    is_about_key = failure.kind is FailureKind.AUTHENTICATION
    if is_about_key and not endpoint.key_known and not status:
        # No request was sent: LiteLLM's message is about its own parameters.
        words = f"{endpoint.variable} is not set"
    return f"{status}: {words}" if words else status


def _outage(failure: ProviderFailure) -> Outage:
    """Return the outage of a failure for which a repetition may help.

    The call was repeated already.
    """
    wait = failure.retry_after
    resets_at = None
    if wait is not None and wait < _LONGEST_WAIT:
        resets_at = datetime.now(UTC) + timedelta(seconds=wait)
    outage = outage_of(failure.status, resets_at)
    if outage is not None and outage.kind == "limit":
        return Outage("limit", outage.reason, resets_at, was_retried=True)
    reason = outage.reason if outage else str(failure.kind)
    return Outage("overload", reason, resets_at, was_retried=True)


# What LiteLLM and clients put before the provider's own words.
_WRAPPING = re.compile(
    r"^(?:litellm\.\w+: *|\w+(?:Exception|Error) *[-:] *|Error code: \d+ *-? *)+"
)
_NOISE = re.compile(
    r"\.? *(Traceback \(most recent call last\)|To drop (unsupported|these)"
    r"|Pass in the LLM provider|Learn more:).*"
)
_LONGEST_MESSAGE = 300


def shorten_failure(message: str) -> str:
    """Return a provider's own sentence: one line of at most 300 characters."""
    words = _WRAPPING.sub("", one_line(message, 10_000))
    return one_line(_NOISE.sub("", words), _LONGEST_MESSAGE)


def failure_from(error: Exception, *, begun: bool) -> ProviderFailure:
    """Return the failure for an exception of LiteLLM.

    `begun`: a part of the answer had arrived.
    """
    # LiteLLM wraps a failure in the middle of a stream, with a status of its own.
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, Exception) and cause is not error:
        return failure_from(cause, begun=True)
    message = own_words(str(getattr(error, "message", None) or error))
    message = message or type(error).__name__
    status = getattr(error, "status_code", None)
    # Without a response, the status is LiteLLM's own too.
    has_response = getattr(error, "litellm_response_headers", None)
    return ProviderFailure(
        message,
        status=status if has_response and isinstance(status, int) else None,
        retry_after=retry_after(error, message),
        kind=_kind(error, status, message, begun=begun),
    )


def _kind(
    error: Exception, status: object, message: str, *, begun: bool
) -> FailureKind:
    """Return the kind of an exception by its classes, its status and its message."""
    names = {cls.__name__ for cls in type(error).__mro__}
    # LiteLLM also sets 500 if no server answered.
    is_own_status = status in (None, 500)
    if is_own_status and _KEY.search(message):
        return FailureKind.AUTHENTICATION
    if names & {"Timeout", "APITimeoutError", "TimeoutException", "TimeoutError"}:
        return FailureKind.TIMEOUT
    if "ContextWindowExceededError" in names:
        return FailureKind.CONTEXT
    is_connection_error = names & {"APIConnectionError", "TransportError", "OSError"}
    if is_connection_error or (is_own_status and _NO_CONNECTION.search(message)):
        return FailureKind.CUT if begun else FailureKind.CONNECTION
    if isinstance(status, int):
        return classify(status, message)
    # Without a status it is a bug in a library: a retry would only hide it.
    return FailureKind.REJECTED


_SENTENCE = re.compile(r'"(?:message|error|detail)" *: *"((?:[^"\\]|\\.)+)"')


def own_words(text: str) -> str:
    """Return the provider's sentence from a JSON body in a message; else the text."""
    sentence = _SENTENCE.search(text)
    if sentence is None:
        return text
    # LiteLLM often shows the body as the repr of bytes, with escapes of escapes.
    return re.sub(r"\\+n", " ", sentence[1]).replace("\\", "")


_WAIT = re.compile(
    r"try (?:again )?(?:in|after) (\d+(?:\.\d+)?) ?(ms|m|s)", re.IGNORECASE
)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def retry_after(error: Exception, message: str = "") -> float | None:
    """Return the seconds to wait, or None if the provider does not say.

    It says so by Retry-After, by the reset headers of a limit, or in the message. A
    message never asks for more than `LONGEST_RETRY_AFTER`.
    """
    headers = getattr(error, "litellm_response_headers", None)
    values = {}
    if isinstance(headers, Mapping):
        values = {str(name): str(value) for name, value in headers.items()}
    now = datetime.now(UTC)
    is_limited = getattr(error, "status_code", None) == RATE_LIMIT
    resets_at = reset_time(values, now, limited=is_limited)
    if resets_at is not None:
        return (resets_at - now).total_seconds()
    words = _WAIT.search(message)
    if words is None:
        return None
    seconds = float(words[1]) * _SECONDS[words[2].lower()]
    return min(seconds, LONGEST_RETRY_AFTER)


RETRIES = 5
"""How many times a failed call is repeated."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


def pause_before(retry: int, retry_after: float | None) -> float:
    """Return the seconds before a retry, which counts from 1.

    They are those that the provider asks for, else 0.5 doubled up to 30.
    """
    # At random, so that many clients do not return at the same moment.
    spread = random.random()
    if retry_after is not None:
        return max(0.0, retry_after) + 0.25 * spread
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (retry - 1))
    return pause * (0.5 + 0.5 * spread)
