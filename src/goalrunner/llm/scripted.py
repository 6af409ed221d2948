"""Recordings of models' replies: they are written and played."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from goalrunner.core.errors import ModelError, RecordError, UsageError
from goalrunner.core.events import Account
from goalrunner.core.field_types import Frozen
from goalrunner.core.messages import clean
from goalrunner.core.outcome import Usage
from goalrunner.llm.client import LLM, Tape
from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.requests import Draft, Reply, Request
from goalrunner.records.files import AppendFile

PREFIX = "scripted/"
# A text arrives in about that many pieces, like a stream.
PIECES = 4


def is_scripted(model: str) -> bool:
    """Return whether a model's name means a recording: `scripted/<path>`."""
    return model.startswith(PREFIX)


class ScriptedCall(Frozen):
    """A tool call of a recorded reply.

    Without an id it gets one when it is played: call_1, call_2, ...
    """

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str = ""

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


class ScriptedError(Frozen):
    """A failure in place of an answer.

    It is a stream that is cut, a timeout, an HTTP status, or else a refused connection.
    """

    status: int | None = Field(default=None, ge=400, le=599)
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0, description="seconds")
    cut: bool = False
    timeout: bool = False

    def failure(self) -> ProviderFailure:
        """Return the failure that a provider would cause."""
        if self.cut:
            message = self.message or "the answer ended early"
            return ProviderFailure(message, kind=FailureKind.CUT)
        if self.timeout:
            message = self.message or "no answer in time"
            return ProviderFailure(message, kind=FailureKind.TIMEOUT)
        return ProviderFailure(
            self.message, status=self.status, retry_after=self.retry_after
        )


class ScriptedReply(Frozen):
    """One line of a recording."""

    account: Account | None = None
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: Usage = Field(default_factory=Usage)
    finish_reason: str = ""
    delay: float = Field(
        default=0.0, ge=0, description="seconds before the answer begins"
    )
    error: ScriptedError | None = None


def read_script(path: Path) -> tuple[ScriptedReply, ...]:
    """Return the lines of a recording.

    Raise UsageError with the file and the invalid line.
    """
    try:
        # Not splitlines(), which also splits at characters inside JSON strings.
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"the recording {path} cannot be read: {reason}",
            f'A model "{PREFIX}<file>" replays the replies in that file; '
            "check the path.",
        ) from error
    replies = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            replies.append(ScriptedReply.model_validate_json(line))
        except ValidationError as error:
            raise _invalid_line(f"{path}:{number}", error) from error
    return tuple(replies)


def _invalid_line(place: str, error: ValidationError) -> UsageError:
    problem = error.errors(include_url=False, include_context=False)[0]
    keys = ", ".join(ScriptedReply.model_fields)
    wrong_key = ".".join(map(str, problem["loc"]))
    message = f"{wrong_key}: {problem['msg']}" if wrong_key else problem["msg"]
    return UsageError(
        f"{place}: {message}", f"Each line is one JSON object; its keys: {keys}."
    )


def new_tape(path: Path | str, *, redact: Callable[[str], str] = str) -> Tape:
    """Return a function that appends the replies of agent and judge to a new file.

    Each line is on disk when it returns. `redact` replaces secrets in every text. Raise
    UsageError if the file cannot be created or is not empty; the function raises
    RecordError.
    """
    # A link that the user gave is followed. The file is opened once, so a link that
    # replaces it later is not.
    target = Path(path).resolve()
    exists = os.path.exists(target)  # noqa: PTH110 - never raises
    if exists and not (target.is_file() and target.stat().st_size == 0):
        raise UsageError(
            f"{path} exists and is not an empty file",
            "Name another file for the recording.",
        )
    try:
        file = AppendFile(target)
    except RecordError as error:
        raise UsageError(
            f"the recording cannot be written: {error.message}",
            "Name a file in a folder that exists and is writable.",
        ) from error
    lock = threading.Lock()

    def record(account: Account, reply: Reply) -> None:
        line = json.dumps(_recorded(account, reply, redact), allow_nan=False)
        with lock:
            file.append(line.encode())

    weakref.finalize(record, file.close)
    return record


def _recorded(
    account: Account, reply: Reply, redact: Callable[[str], str]
) -> dict[str, Any]:
    """Return a reply as a line of a recording."""
    line: dict[str, Any] = {"account": account, "text": clean(redact(reply.text))}
    if reply.tool_calls:
        line["tool_calls"] = [
            {
                "id": call.id,
                "name": clean(redact(call.name)),
                "arguments": clean(redact(call.arguments)),
            }
            for call in reply.tool_calls
        ]
    line["usage"] = reply.usage.model_dump(
        include={"input_tokens", "output_tokens", "cost_usd"}
    )
    line["finish_reason"] = reply.finish_reason
    return line


class ScriptedModel(LLM):
    """Plays the lines of one recording that are for one account, in order."""

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self._path = Path(model.removeprefix(PREFIX))
        self._lines = [
            line
            for line in read_script(self._path)
            if line.account in (None, self.account)
        ]
        self._next = 0
        self._calls = 0

    async def send(self, request: Request, draft: Draft) -> None:
        """Play the next line. Raise ModelError at the end of the recording."""
        line = self._take_line()
        await asyncio.sleep(line.delay)
        if line.error is not None and not line.error.cut:
            raise line.error.failure()
        # At least one character, and rounded up.
        size = max(1, -(-len(line.text) // PIECES))
        for start in range(0, len(line.text), size):
            await asyncio.sleep(0)
            draft.add_text(line.text[start : start + size])
        for index, call in enumerate(line.tool_calls):
            self._calls += 1
            identifier = call.id or f"call_{self._calls}"
            draft.add_call(index, identifier, call.name, call.text)
        if line.error is not None:
            raise line.error.failure()
        draft.report = line.usage
        usual_reason = "tool_calls" if line.tool_calls else "stop"
        draft.finish_reason = line.finish_reason or usual_reason

    def separate(self, account: Account) -> LLM:
        return ScriptedModel(self.model, account=account, tape=self._tape)

    def has_price(self) -> bool:
        return True

    def cost_of(self, usage: Usage) -> float | None:
        return 0.0

    def skip(self, replies: int) -> None:
        """Skip the first `replies` answered replies, and the errors between them."""
        while replies > 0:
            line = self._take_line()
            self._calls += len(line.tool_calls)
            if line.error is None:
                replies -= 1

    def _take_line(self) -> ScriptedReply:
        if self._next >= len(self._lines):
            raise ModelError(
                f"the recording has no more replies for the {self.account}: "
                f"{self._next} were used",
                f"{self._path} is at its end; "
                "record a longer run, or name a real model.",
            )
        self._next += 1
        return self._lines[self._next - 1]
