"""Failed model calls: their classification, the pause before a repetition, and their error messages."""

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
"""Seconds that a call waits if the provider asks for it. A call that would have to wait longer fails at once."""
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
    """A failed call: the HTTP status if there was one, the provider's message, and its Retry-After in seconds.

    `kind` replaces the classification by status and message.
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
        if self.kind is FailureKind.QUOTA and status == RATE_LIMIT and self.is_long:
            self.kind = FailureKind.RATE_LIMIT  # a quota that resets

    @property
    def is_long(self) -> bool:
        """Whether the provider asks for a longer wait than a call may take."""
        return self.retry_after is not None and self.retry_after > LONGEST_RETRY_AFTER


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_CONTEXT = _words(
    r"context.{0,10}(length|window|size|limit)|(maximum|available) context|(prompt|input) is too long|too many tokens",
    r"reduce the length|input tokens? (exceed|count)|maximum number of tokens",
)
_KEY = _words(
    r"(invalid|incorrect|missing|no|wrong|not valid).{0,30}(api[_ -]?key|credentials|token provided)",
    r"api[_ -]?key.{0,40}(must be set|is required|not valid|invalid|missing|not found)",
)
_QUOTA = _words(
    r"insufficient|exceeded your current quota|credit balance|billing|payment required|out of credits"
)
_SOON = _words(r"(re)?try (again )?(in|after)|retryDelay|per[ _-]?(second|minute)")
"""Words of a rate limit that passes by itself; some providers call that a quota too."""
_MODEL = _words(
    r"LLM Provider NOT provided|model.{0,80}(not found|(does not|doesn't|not) exist|unknown)|(no such|unknown|invalid) model",
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
    """Return the kind of a failure by its HTTP status or, if the status is ambiguous, by its message."""
    if status is None or status in _BY_STATUS:
        return _BY_STATUS[status]
    if status == 429:
        spent = _QUOTA.search(message) and not _SOON.search(message)
        return FailureKind.QUOTA if spent else FailureKind.RATE_LIMIT
    if 400 <= status < 500:
        return next(
            (kind for words, kind in _BY_WORDS.items() if words.search(message)),
            FailureKind.REJECTED,
        )
    return (
        FailureKind.CONTEXT
        if status == 500 and _CONTEXT.search(message)
        else FailureKind.SERVER
    )


@dataclass(frozen=True)
class Endpoint:
    """The address and key of requests. None leaves the choice to LiteLLM."""

    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    variable: str = ""  # the variable that the key comes from, or would come from
    key_known: bool = True  # whether a key was found


_ERRORS: dict[FailureKind, tuple[type[ModelError], str, str]] = {
    FailureKind.AUTHENTICATION: (
        AuthenticationFailed,
        "the key for {model} {state}",
        "Export the key as {variable}, or name its variable with api_key_env in [{account}].",
    ),
    FailureKind.MODEL: (
        ModelNotFound,
        "the model {model} was not found",
        "Write provider/model as LiteLLM names it, for example openai/gpt-5-mini; see [{account}] model and api_base.",
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
"""Type, message and hint of errors for which a repetition cannot help."""

TRANSIENT = {
    FailureKind.RATE_LIMIT: "Wait and run again, or ask the provider for a higher rate limit.",
    FailureKind.SERVER: "Wait and run again; the provider's status page may say more.",
    FailureKind.TIMEOUT: "Run again, or allow more seconds with timeout in [{account}.params].",
    FailureKind.CONNECTION: "Check the network, and [{account}] api_base if you use your own server.",
    FailureKind.CUT: "Run again; if it happens again, a proxy may cut off long answers.",
}
"""The kinds for which a repetition may help, with their hints."""


def explain(
    failure: ProviderFailure,
    model: str,
    account: str,
    endpoint: Endpoint,
    retries: int = 0,
) -> ModelError:
    """Return the error for users: one line with the failure and its cause, one line with the fix."""
    from goalrunner.records.redaction import Redactor

    kind, variable = failure.kind, endpoint.variable
    words = shorten_failure(
        Redactor(os.environ, names=(variable,)).text(failure.message)
    )
    if (
        kind is FailureKind.AUTHENTICATION
        and not endpoint.key_known
        and not failure.status
    ):
        # No request was sent: LiteLLM's message is about its own parameters.
        words = f"{variable} is not set"
    status = f" ({failure.status})" if failure.status else ""
    why = f"{status}: {words}" if words else status
    if kind in TRANSIENT:
        where = f" at {endpoint.api_base}" if endpoint.api_base else ""
        after = (
            f" after {retries} {'retry' if retries == 1 else 'retries'}"
            if retries
            else ""
        )
        message = f"{model}{where} did not answer{after}: {kind}{why}"
        return ProviderUnavailable(
            message, TRANSIENT[kind].format(account=account), outage=_outage(failure)
        )
    error, message, hint = _ERRORS[kind]
    state = "was not accepted" if endpoint.key_known else "is missing"
    return error(
        message.format(model=model, state=state) + why,
        hint.format(account=account, variable=variable or "the provider's own"),
    )


def _outage(failure: ProviderFailure) -> Outage:
    """Return the outage of a failure for which a repetition may help. The call was repeated already."""
    wait = failure.retry_after
    resets_at = (
        datetime.now(UTC) + timedelta(seconds=wait)
        if wait is not None and wait < _LONGEST_WAIT
        else None
    )
    known = outage_of(failure.status, resets_at)
    if known is not None and known.kind == "limit":
        return Outage("limit", known.reason, resets_at, was_retried=True)
    return Outage(
        "overload",
        known.reason if known else str(failure.kind),
        resets_at,
        was_retried=True,
    )


_WRAPPING = re.compile(
    r"^(?:litellm\.\w+: *|\w+(?:Exception|Error) *[-:] *|Error code: \d+ *-? *)+"
)
_NOISE = re.compile(
    r"\.? *(Traceback \(most recent call last\)|To drop (unsupported|these)|Pass in the LLM provider|Learn more:).*"
)


def shorten_failure(message: str) -> str:
    """Return a provider's own sentence: one line, without wrapping, at most 300 characters."""
    return one_line(_NOISE.sub("", _WRAPPING.sub("", one_line(message, 10_000))), 300)


def failure_from(error: Exception, *, begun: bool) -> ProviderFailure:
    """Return the failure for an exception of LiteLLM. `begun`: a part of the answer had arrived."""
    # LiteLLM wraps a failure in the middle of a stream, with a status of its own.
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, Exception) and cause is not error:
        return failure_from(cause, begun=True)
    message = (
        own_words(str(getattr(error, "message", None) or error)) or type(error).__name__
    )
    status = getattr(error, "status_code", None)
    # Without a response, the status is LiteLLM's own too.
    answered = getattr(error, "litellm_response_headers", None) and isinstance(
        status, int
    )
    return ProviderFailure(
        message,
        status=status if answered else None,
        retry_after=retry_after(error, message),
        kind=_kind(error, status, message, begun=begun),
    )


def _kind(
    error: Exception, status: object, message: str, *, begun: bool
) -> FailureKind:
    names = {cls.__name__ for cls in type(error).__mro__}
    is_own = status in (None, 500)  # LiteLLM also sets 500 if no server answered
    if is_own and _KEY.search(message):
        return FailureKind.AUTHENTICATION
    if names & {"Timeout", "APITimeoutError", "TimeoutException", "TimeoutError"}:
        return FailureKind.TIMEOUT
    if "ContextWindowExceededError" in names:
        return FailureKind.CONTEXT
    if names & {"APIConnectionError", "TransportError", "OSError"} or (
        is_own and _NO_CONNECTION.search(message)
    ):
        return FailureKind.CUT if begun else FailureKind.CONNECTION
    # Without a status it is a bug in a library: a retry would only hide it.
    return (
        classify(status, message) if isinstance(status, int) else FailureKind.REJECTED
    )


_SENTENCE = re.compile(r'"(?:message|error|detail)" *: *"((?:[^"\\]|\\.)+)"')


def own_words(text: str) -> str:
    """Return the provider's sentence from the JSON body that LiteLLM shows, often as the repr of bytes; else the text."""
    found = _SENTENCE.search(text)
    return re.sub(r"\\+n", " ", found[1]).replace("\\", "") if found else text


_WAIT = re.compile(
    r"try (?:again )?(?:in|after) (\d+(?:\.\d+)?) ?(ms|m|s)", re.IGNORECASE
)


def retry_after(error: Exception, message: str = "") -> float | None:
    """Return the seconds to wait by Retry-After, by the reset headers of a limit or by the message; None if none does.

    A message never asks for more than `LONGEST_RETRY_AFTER`.
    """
    headers = getattr(error, "litellm_response_headers", None)
    values = (
        {str(name): str(value) for name, value in headers.items()}
        if isinstance(headers, Mapping)
        else {}
    )
    now = datetime.now(UTC)
    resets_at = reset_time(
        values, now, limited=getattr(error, "status_code", None) == RATE_LIMIT
    )
    if resets_at is not None:
        return (resets_at - now).total_seconds()
    words = _WAIT.search(message)
    seconds = (
        float(words[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[words[2].lower()]
        if words
        else None
    )
    return None if seconds is None else min(seconds, LONGEST_RETRY_AFTER)


RETRIES = 5
"""How many times a failed call is repeated."""


def pause_before(retry: int, retry_after: float | None) -> float:
    """Return the seconds before a retry (1, 2, ...): those that the provider asks for, else 0.5 doubled up to 30."""
    spread = random.random()
    if retry_after is None:
        return min(30.0, 0.5 * 2.0 ** (retry - 1)) * (0.5 + 0.5 * spread)
    return max(0.0, retry_after) + 0.25 * spread
