"""LiteLLM's replies and exceptions, translated."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from goalrunner.llm.failure import FailureKind, ProviderFailure, classify
from goalrunner.llm.transport import CallPiece, Piece, UsageReport

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
    """Return the failure that an exception of LiteLLM means; `begun` says that a part of the answer had come."""
    # A failure in the middle of a stream comes wrapped, with a status of LiteLLM's.
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, Exception) and cause is not error:
        return failure_from(cause, begun=True)
    message = _message(error)
    kind = _kind(error, message, begun=begun)
    status = getattr(error, "status_code", None)
    # Where no answer came, the status is LiteLLM's too.
    answered = kind not in (FailureKind.CONNECTION, FailureKind.CUT, FailureKind.TIMEOUT)
    is_real = answered and isinstance(status, int) and getattr(error, "litellm_response_headers", None)
    return ProviderFailure(
        message, status=status if is_real else None, retry_after=retry_after(error, message), kind=kind
    )


def _kind(error: Exception, message: str, *, begun: bool) -> FailureKind:
    names = {cls.__name__ for cls in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if _NO_KEY.search(message):
        return FailureKind.AUTHENTICATION
    if names & {"Timeout", "APITimeoutError", "TimeoutException", "TimeoutError"}:
        return FailureKind.TIMEOUT
    if "ContextWindowExceededError" in names:
        return FailureKind.CONTEXT
    if (status in (None, 500) and _NO_CONNECTION.search(message)) or names & {"TransportError", "OSError"}:
        return FailureKind.CUT if begun else FailureKind.CONNECTION
    if "APIConnectionError" in names:
        # LiteLLM also raises it for answers that it cannot read.
        return FailureKind.CUT if begun else FailureKind.SERVER
    # Without a status it is a defect on the way: a repetition would only hide it.
    return classify(status, message) if isinstance(status, int) else FailureKind.REJECTED


def _message(error: Exception) -> str:
    body = getattr(error, "body", None)
    words = body.get("message") if isinstance(body, dict) else None
    text = words if isinstance(words, str) and words else getattr(error, "message", None) or str(error)
    return own_words(str(text)) or type(error).__name__


def own_words(text: str) -> str:
    """Return the provider's sentence from the JSON body that LiteLLM shows, often as the repr of bytes; else the text."""
    shown = _BYTES.search(text)
    try:
        body = json.loads(ast.literal_eval(shown[0]) if shown else text[text.index("{") : text.rindex("}") + 1])
    except (ValueError, SyntaxError, RecursionError):
        return text
    for value in (body.get("error"), body.get("message"), body.get("detail")) if isinstance(body, dict) else ():
        words = value.get("message") if isinstance(value, dict) else value
        if isinstance(words, str) and words:
            return words
    return text


def retry_after(error: Exception, message: str = "") -> float | None:
    """Return the seconds to wait by the Retry-After header (a number or a date) or by the words; None without either."""
    response = getattr(error, "response", None)
    for headers in (getattr(error, "litellm_response_headers", None), getattr(response, "headers", None)):
        value = headers.get("retry-after") if headers is not None else None
        if value is not None:
            return _seconds(str(value))
    words = _WAIT.search(message)
    return float(words[1]) * _UNITS[words[2].lower()] if words else None


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


def piece_of(answer: Any) -> Piece:
    """Return the content of a chunk of a stream, or of a whole response."""
    text = ""
    calls: list[CallPiece] = []
    for choice in getattr(answer, "choices", None) or ():
        content = getattr(choice, "delta", None) or getattr(choice, "message", None)
        text += getattr(content, "content", None) or ""
        for number, call in enumerate(getattr(content, "tool_calls", None) or ()):
            index = getattr(call, "index", None)
            calls.append(
                CallPiece(
                    index=index if isinstance(index, int) else number,
                    id=call.id or "",
                    name=getattr(call.function, "name", None) or "",
                    arguments=getattr(call.function, "arguments", None) or "",
                )
            )
    usage = getattr(answer, "usage", None)
    report = None
    if usage is not None:
        report = UsageReport(max(0, usage.prompt_tokens or 0), max(0, usage.completion_tokens or 0), detail=usage)
    return Piece(text, tuple(calls), report)


def stream_reason(response: Any) -> str:
    """Return why a stream ended, as the provider said. LiteLLM's own last chunk always says "stop"."""
    said = getattr(response, "received_finish_reason", None) or getattr(response, "intermittent_finish_reason", None)
    return str(said or "")


def usage_is_reported(piece: Piece, response: Any) -> bool:
    """Return whether the usage in a piece of a stream is the provider's own, or there is none.

    Without one, LiteLLM counts the chunks, and counts a tool's name once for each of them. It keeps all chunks that came,
    with their usage, but not the one that it makes at the end.
    """
    chunks = getattr(response, "chunks", None)
    if piece.report is None or not isinstance(chunks, list):
        return True
    return any(getattr(chunk, "usage", None) is not None for chunk in chunks)


class RawBody:
    """The body of a whole answer as the provider sent it."""

    def __init__(self) -> None:
        self._body = ""

    def take(self, call: Mapping[str, Any]) -> None:
        """Receive a stage of a call from LiteLLM; the last one has the body."""
        body = call.get("original_response")
        self._body = body if isinstance(body, str) else ""

    def reason(self, response: Any) -> str:
        """Return why the answer ended; empty if its body, in OpenAI's format, does not say: LiteLLM would say "stop"."""
        choices = getattr(response, "choices", None) or ()
        try:
            own = json.loads(self._body)["choices"][0]
            ended = own.get("finish_reason") or own.get("finish_details")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            ended = True  # another format, or no body
        return str(getattr(choices[0], "finish_reason", None) or "") if choices and ended else ""
