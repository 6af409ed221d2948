"""Reading what LiteLLM gives back, in chunks or whole. Owns the way from its shapes to ours; asks nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from goalrunner.llm.transport import CallPiece, Delta, TextPiece, UsageReport


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
