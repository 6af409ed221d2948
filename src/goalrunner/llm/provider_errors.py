"""LiteLLM's replies and exceptions, translated."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from goalrunner.llm.failure import FailureKind, ProviderFailure, classify
from goalrunner.llm.transport import CallPiece, Delta, TextPiece, UsageReport

_NO_KEY = re.compile(r"missing credentials|api_key client option must be set|missing .{0,40}api key", re.IGNORECASE)
_NO_CONNECTION = re.compile(
    r"connection (error|refused|reset)|cannot connect|connect(ion)? timeout|name or service not known|peer closed connection"
    r"|server disconnected|incomplete chunked read|all connection attempts failed",
    re.IGNORECASE,
)

_BYTES = re.compile(r"""b(['"])\{.*\}\\?n?\s*\1""", re.DOTALL)
_WAIT = re.compile(r"try (?:again )?(?:in|after) (\d+(?:\.\d+)?) ?(ms|m|s)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def failure_from(error: Exception, *, begun: bool) -> ProviderFailure:
    """What an exception out of LiteLLM means; `begun` says that a part of the answer had already come."""
    # A failure in mid-stream comes wrapped, with a status of its own making.
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, Exception) and cause is not error:
        return failure_from(cause, begun=True)
    message = _message(error)
    kind = _kind(error, message, begun=begun)
    return ProviderFailure(message, status=_status(error, kind), retry_after=retry_after(error, message), kind=kind)


def _kind(error: Exception, message: str, *, begun: bool) -> FailureKind:
    names = {cls.__name__ for cls in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if _NO_KEY.search(message):
        return FailureKind.AUTHENTICATION
    if names & {"Timeout", "APITimeoutError", "TimeoutException", "TimeoutError"}:
        return FailureKind.TIMEOUT
    if "ContextWindowExceededError" in names:
        return FailureKind.CONTEXT
    lost = status in (None, 500) and _NO_CONNECTION.search(message)
    if lost or names & {"TransportError", "OSError"}:
        return FailureKind.CUT if begun else FailureKind.CONNECTION
    if "APIConnectionError" in names:
        # LiteLLM says so of answers that it could not read, too.
        return FailureKind.CUT if begun else FailureKind.SERVER
    if not isinstance(status, int):
        # A defect on the way, no answer of a provider: trying again would only hide it.
        return FailureKind.REJECTED
    return classify(status, message)


def _status(error: Exception, kind: FailureKind) -> int | None:
    """The provider's status. LiteLLM makes one up where no answer came; that one is not shown."""
    status = getattr(error, "status_code", None)
    made_up = kind in (FailureKind.CONNECTION, FailureKind.CUT, FailureKind.TIMEOUT)
    return (
        status if isinstance(status, int) and not made_up and getattr(error, "litellm_response_headers", None) else None
    )


def _message(error: Exception) -> str:
    body = getattr(error, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    text = said if isinstance(said, str) and said else getattr(error, "message", None) or str(error)
    return own_words(str(text)) or type(error).__name__


def own_words(text: str) -> str:
    """The provider's sentence out of the JSON body that LiteLLM shows, often as the repr of bytes; else the text."""
    shown = _BYTES.search(text)
    try:
        raw = (
            ast.literal_eval(shown[0]).decode("utf-8", "replace")
            if shown
            else text[text.index("{") : text.rindex("}") + 1]
        )
        body = json.loads(raw)
    except (ValueError, SyntaxError, RecursionError):
        return text
    for value in (body.get("error"), body.get("message"), body.get("detail")) if isinstance(body, dict) else ():
        said = value.get("message") if isinstance(value, dict) else value
        if isinstance(said, str) and said:
            return said
    return text


def retry_after(error: Exception, message: str = "") -> float | None:
    """Seconds to wait, from the Retry-After header (a number or a date) or from the words; None where neither says."""
    for source in (getattr(error, "litellm_response_headers", None), _headers(error)):
        value = source.get("retry-after") if source is not None else None
        if value is not None:
            return _seconds(str(value))
    said = _WAIT.search(message)
    return float(said[1]) * _UNITS[said[2].lower()] if said else None


def _headers(error: Exception) -> Any:
    return getattr(getattr(error, "response", None), "headers", None)


def _seconds(value: str) -> float | None:
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, (until - datetime.now(until.tzinfo or UTC)).total_seconds())


def deltas(answer: Any) -> Iterator[Delta]:
    """What a chunk of a stream, or a whole response, holds; all but the finish reason."""
    for choice in getattr(answer, "choices", None) or ():
        said = getattr(choice, "delta", None) or getattr(choice, "message", None)
        text = getattr(said, "content", None)
        if text:
            yield TextPiece(text)
        for number, piece in enumerate(getattr(said, "tool_calls", None) or ()):
            function = piece.function
            index = getattr(piece, "index", None)
            yield CallPiece(
                index=index if isinstance(index, int) else number,
                id=piece.id or "",
                name=getattr(function, "name", None) or "",
                arguments=getattr(function, "arguments", None) or "",
            )
    usage = getattr(answer, "usage", None)
    if usage is not None:
        yield UsageReport(
            input_tokens=max(0, usage.prompt_tokens or 0),
            output_tokens=max(0, usage.completion_tokens or 0),
            detail=usage,
        )


def stream_reason(response: Any) -> str:
    """Why a stream ended, as the provider said. LiteLLM's own last chunk says "stop" even where it said nothing at all."""
    said = getattr(response, "received_finish_reason", None) or getattr(response, "intermittent_finish_reason", None)
    return str(said or "")


def usage_is_reported(response: Any) -> bool:
    """Whether a stream's usage is the provider's own.

    Where a provider sends none LiteLLM makes it up from the chunks, and counts a tool's name once for each of them. It
    keeps every chunk that came, with its usage where there was one, but not the one that it makes up at the end.
    """
    chunks = getattr(response, "chunks", None)
    return not isinstance(chunks, list) or any(getattr(chunk, "usage", None) is not None for chunk in chunks)


class Raw:
    """A whole answer as the provider gave it."""

    def __init__(self) -> None:
        self._body = ""

    def take(self, call: Mapping[str, Any]) -> None:
        """LiteLLM tells each stage of a call; the last one knows the body."""
        body = call.get("original_response")
        self._body = body if isinstance(body, str) else ""

    def reason(self, response: Any) -> str:
        """Why the answer ended; empty where there is none, or where its body, in OpenAI's shape, does not say."""
        choices = getattr(response, "choices", None) or ()
        if not choices or not self._says_why():
            return ""
        return str(getattr(choices[0], "finish_reason", None) or "")

    def _says_why(self) -> bool:
        try:
            body = json.loads(self._body)
        except (ValueError, RecursionError):
            return True  # another protocol, or no body to be had: LiteLLM is believed
        choices = body.get("choices") if isinstance(body, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return True
        return bool(choices[0].get("finish_reason") or choices[0].get("finish_details"))
