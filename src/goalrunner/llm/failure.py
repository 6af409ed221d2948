"""Classification of failed model calls, and their error messages.

A transport reports a `ProviderFailure`: bare facts. `classify` says what kind it is, and `explain` turns it into the
error for people. Scripted errors take the same way as a provider's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from goalrunner.core.errors import (
    AuthenticationFailed,
    ContextWindowExceeded,
    ModelError,
    ModelNotFound,
    ProviderUnavailable,
    RequestRejected,
)

LONGEST_SENTENCE = 300
"""Characters of a provider's own words that are shown."""


class FailureKind(StrEnum):
    """What a failure is, for what is to be done about it."""

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


PASSING = frozenset(
    {FailureKind.RATE_LIMIT, FailureKind.SERVER, FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.CUT}
)
"""The kinds that trying again may cure."""


class ProviderFailure(Exception):
    """A failed call in bare facts: the HTTP status where there was one, the provider's words, its Retry-After (s).

    `kind` is set by a transport that knows better than status and words can tell.
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


_CONTEXT = re.compile(
    r"context.{0,10}(length|window|size|limit)|maximum context|prompt is too long|input is too long|too many tokens"
    r"|exceeds? the (available|model'?s?) (context|maximum)|reduce the length|input tokens? (exceed|count)"
    r"|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ](quota|balance|credits?|funds)|exceeded your current quota|credit balance|billing|payment required"
    r"|out of credits",
    re.IGNORECASE,
)
_SOON = re.compile(r"(re)?try (again )?(in|after)|retryDelay|per[ _-]?(second|minute)", re.IGNORECASE)
"""Words of a rate limit that passes by itself; some providers speak of a quota there too."""
_MODEL = re.compile(
    r"LLM Provider NOT provided|model.{0,80}(not found|does not exist|doesn't exist|not exist|unknown)"
    r"|(no such|unknown|invalid) model|model_not_found|not a valid model",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(invalid|incorrect|missing|no|wrong|not valid).{0,30}(api[_ -]?key|credentials|token provided)"
    r"|api[_ -]?key.{0,40}(must be set|is required|not valid|invalid|missing|not found)",
    re.IGNORECASE,
)


def classify(status: int | None, message: str) -> FailureKind:
    """The kind of a failure, from its HTTP status and, where providers put it only there, from its words."""
    match status:
        case None:
            return FailureKind.CONNECTION
        case 401 | 403:
            return FailureKind.AUTHENTICATION
        case 404:
            return FailureKind.MODEL
        case 402:
            return FailureKind.QUOTA
        case 408:
            return FailureKind.TIMEOUT
        case 429:
            spent = _QUOTA.search(message) and not _SOON.search(message)
            return FailureKind.QUOTA if spent else FailureKind.RATE_LIMIT
        case 413:
            return FailureKind.CONTEXT
        case 409 | 425:
            return FailureKind.SERVER
        case _ if 400 <= status < 500:
            return _classify_request(message)
        case _:
            return FailureKind.CONTEXT if status == 500 and _CONTEXT.search(message) else FailureKind.SERVER


def _classify_request(message: str) -> FailureKind:
    for pattern, kind in (
        (_CONTEXT, FailureKind.CONTEXT),
        (_KEY, FailureKind.AUTHENTICATION),
        (_QUOTA, FailureKind.QUOTA),
        (_MODEL, FailureKind.MODEL),
    ):
        if pattern.search(message):
            return kind
    return FailureKind.REJECTED


@dataclass(frozen=True)
class Caller:
    """Who asked whom: what an error needs to name."""

    model: str
    account: str
    key_variable: str = ""
    """The environment variable that the key comes, or would come, from."""
    key_known: bool = True
    """Whether a key was found at all."""
    api_base: str = ""
    similar: str = ""
    """A model that may be meant, if the name is misspelled."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Values that must not be shown."""


def explain(failure: ProviderFailure, caller: Caller, retries: int = 0) -> ModelError:
    """The error for people: one line what and why, one line that fixes it."""
    said = shorten(failure.message, caller.secrets)
    if "LLM Provider NOT provided" in said:
        said = "its provider is unknown"
    because = f": {said}" if said else ""
    status = f" ({failure.status})" if failure.status else ""
    table = f"[{caller.account}]"
    match failure.kind:
        case FailureKind.AUTHENTICATION:
            what = "was not accepted" if caller.key_known else "is missing"
            if not caller.key_known and not status:
                # Nobody was asked: what a provider's library says then is about its own parameters.
                because = f": {caller.key_variable} is not set" if caller.key_variable else ""
            return AuthenticationFailed(f"the key for {caller.model} {what}{status}{because}", _key_hint(caller))
        case FailureKind.MODEL:
            guess = f"; did you mean {caller.similar}?" if caller.similar else ""
            return ModelNotFound(
                f"the model {caller.model} was not found{status}{because}{guess}",
                f"Write provider/model as LiteLLM names it, for example openai/gpt-5-mini; see {table} model and api_base.",
            )
        case FailureKind.CONTEXT:
            return ContextWindowExceeded(
                f"the request is too long for {caller.model}{status}{because}",
                f"Choose a model with a larger context window in {table} model.",
            )
        case FailureKind.QUOTA:
            return RequestRejected(
                f"the provider of {caller.model} wants to be paid first{status}{because}",
                "Top up the account or raise its limit at the provider, or use another key.",
            )
        case FailureKind.REJECTED:
            return RequestRejected(
                f"the provider of {caller.model} refused the request{status}{because}",
                f"Check {table} params and api_base: what is set there is sent as it stands.",
            )
        case (
            FailureKind.RATE_LIMIT | FailureKind.SERVER | FailureKind.TIMEOUT | FailureKind.CONNECTION | FailureKind.CUT
        ):
            return _unavailable(failure, caller, status, because, retries)
        case _:
            assert_never(failure.kind)


def _unavailable(
    failure: ProviderFailure, caller: Caller, status: str, because: str, retries: int
) -> ProviderUnavailable:
    after = {0: "", 1: " after 1 retry"}.get(retries, f" after {retries} retries")
    where = f" at {caller.api_base}" if caller.api_base else ""
    hints = {
        FailureKind.RATE_LIMIT: "Wait and run again, or ask the provider for a higher rate limit.",
        FailureKind.SERVER: "Wait and run again; the provider's status page may say more.",
        FailureKind.TIMEOUT: f"Run again, or allow more seconds with timeout in [{caller.account}.params].",
        FailureKind.CONNECTION: f"Check the network, and [{caller.account}] api_base if a server of your own is meant.",
        FailureKind.CUT: "Run again; if it happens again, a proxy on the way may cut long answers.",
    }
    message = f"{caller.model}{where} did not answer{after}: {failure.kind}{status}{because}"
    return ProviderUnavailable(message, hints[failure.kind])


def _key_hint(caller: Caller) -> str:
    if not caller.key_variable:
        return f"Name the variable that holds the key with api_key_env in [{caller.account}]."
    return f"export {caller.key_variable}=...   (or name another variable with api_key_env in [{caller.account}])"


_SECRET_SHAPE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|glpat|AIza)[-_][\w*.-]{6,}|\bAIza[\w-]{20,}|(?<=Bearer )[\w.~+/-]{8,}=*", re.ASCII
)
_WRAPPING = re.compile(r"^(?:litellm\.\w+: *|\w+(?:Exception|Error) *[-:] *|Error code: \d+ *-? *)+")

_NOISE = re.compile(
    r"\.? *(Traceback \(most recent call last\)|To drop (unsupported|these)|Pass in the LLM provider|Learn more:).*"
)


def shorten(message: str, secrets: Sequence[str] = ()) -> str:
    """A provider's own sentence: one line, without wrapping, at most 300 characters, keys replaced."""
    text = _NOISE.sub("", _WRAPPING.sub("", " ".join(message.split())))
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[redacted]")
    text = _SECRET_SHAPE.sub("[redacted]", text)
    return text if len(text) <= LONGEST_SENTENCE else text[: LONGEST_SENTENCE - 1] + "…"
