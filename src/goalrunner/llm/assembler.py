"""Deltas become a reply. Owns the putting together of pieces; knows neither providers nor prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from goalrunner.llm.reply import ToolCall
from goalrunner.llm.transport import CallPiece, Delta, Draft, Finish, TextPiece, UsageReport


class Assembler:
    """Collects the pieces of one answer; `draft` is what has come so far."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self.draft = Draft()
        self._on_text = on_text
        self._places: dict[int, int] = {}

    def add(self, delta: Delta) -> None:
        """Take the next piece; text goes on to `on_text` at once."""
        match delta:
            case TextPiece(text):
                self._add_text(text)
            case CallPiece():
                self._add_call(delta)
            case UsageReport():
                self.draft.report = delta
            case Finish(reason):
                self.draft.finish_reason = reason
            case _:
                assert_never(delta)

    def calls(self, fallback_id: Callable[[int], str]) -> tuple[ToolCall, ...]:
        """The tool calls in their order; `fallback_id(n)` names the n-th where the model gave it no id."""
        return tuple(
            ToolCall(id=piece.id or fallback_id(number), name=piece.name, arguments=piece.arguments)
            for number, piece in enumerate(self.draft.calls)
        )

    def _add_text(self, text: str) -> None:
        if not text:
            return
        self.draft.text += text
        if self._on_text is not None:
            self._on_text(text)

    def _add_call(self, piece: CallPiece) -> None:
        place = self._places.get(piece.index)
        if place is None or self._is_another(self.draft.calls[place], piece):
            self._places[piece.index] = len(self.draft.calls)
            self.draft.calls.append(piece)
            return
        begun = self.draft.calls[place]
        self.draft.calls[place] = CallPiece(
            index=begun.index,
            id=begun.id or piece.id,
            # Names come whole, in the first piece or in every one; only arguments come in parts.
            name=begun.name or piece.name,
            arguments=begun.arguments + piece.arguments,
        )

    @staticmethod
    def _is_another(begun: CallPiece, piece: CallPiece) -> bool:
        """Some servers give every call of an answer the index 0; a new id beside a name tells them apart."""
        return bool(piece.id and piece.name and begun.id and piece.id != begun.id)
