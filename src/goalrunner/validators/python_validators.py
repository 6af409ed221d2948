"""Python callables as validators, in a child process or in this one."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError

from goalrunner.core.field_types import Frozen
from goalrunner.core.goal_tables import DEFAULT_VALIDATOR_TIMEOUT
from goalrunner.core.ports import Completion, ValidationContext
from goalrunner.core.verdict import (
    ValidatorResult,
)
from goalrunner.system.launcher import in_thread
from goalrunner.validators import child
from goalrunner.validators.child import arguments_of, callable_outcome, traceback_end
from goalrunner.validators.spec_validator import (
    Answer,
    CheckPlace,
    NamedValidator,
    Reason,
    SpecValidator,
)

_BYTES = 65_536
_Read = TypeVar("_Read")


def response_message(text: str) -> dict[str, Any]:
    """Return the round's last message as validators of Strands' GoalLoop get it."""
    return {"role": "assistant", "content": [{"text": text}]}


class _ChildAnswer(Frozen):
    nonce: str
    reason: Reason
    feedback: str


class PythonValidator(SpecValidator):
    """Calls `spec.python` (`package.module:function`) as `(response, agent)` in a child process.

    The interpreter is the runner's own. A module is looked for in PYTHONPATH, among what is installed, in what else the
    runner can import, and in the workspace last: a file that the agent writes replaces neither an installed check nor
    what it imports. Folders of PYTHONPATH inside the workspace count as the workspace.
    """

    scores = False  # whether it returns a score instead

    async def _checked(self, context: ValidationContext, place: CheckPlace) -> Answer:
        nonce, answers = secrets.token_hex(16), context.scratch(".answer")
        path = answers / "result.json"
        try:
            answers.mkdir(mode=0o700)
            # -I: neither the workspace nor PYTHON* may change what runs before the callable is loaded.
            argv = [sys.executable, "-I", "-B", "-u", "-X", "utf8", child.__file__]
            request = self._request(context, place, nonce, path)
            place = replace(place, shared=(*place.shared, answers))
            completion = await self._launch(argv, context, place, request)
            result = self._cut_short(completion) or self._judged(
                completion, path, nonce
            )
        finally:
            shutil.rmtree(answers, ignore_errors=True)
        if not completion.output.exists():
            return result, None
        if result.feedback and result.reason != "timeout":
            with completion.output.open("ab") as file:
                file.write(result.feedback.encode(errors="replace") + b"\n")
        return result, completion.output

    def _request(
        self, context: ValidationContext, place: CheckPlace, nonce: str, result: Path
    ) -> bytes:
        workspace = os.path.realpath(place.workspace)
        entries = place.env.get("PYTHONPATH", "").split(os.pathsep)
        given = [os.path.join(place.folder, entry) for entry in entries if entry]  # noqa: PTH118
        known = [os.path.abspath(entry) for entry in sys.path if entry]  # noqa: PTH100 - a link stays one
        within = [
            entry
            for entry in (*given, *known)
            if _is_written_by_the_agent(entry, workspace)
        ]
        request: dict[str, Any] = {
            "target": self.command,
            "response": response_message(context.response),
            "messages": list(context.conversation.messages),
            "first": [entry for entry in given if entry not in within],
            "installed": [entry for entry in known if entry not in within],
            "workspace": list(dict.fromkeys([str(place.folder), workspace, *within])),
            "result": str(result),
            "nonce": nonce,
            "scores": self.scores,
        }
        return json.dumps(request, default=str).encode()

    def _judged(
        self, completion: Completion, path: Path, nonce: str
    ) -> ValidatorResult:
        try:
            answer = _ChildAnswer.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            answer = None
        if answer is None or not secrets.compare_digest(
            answer.nonce.encode(), nonce.encode()
        ):
            return self._result(
                "crashed",
                f"ended without a result (exit {completion.exit_code})",
                completion,
            )
        if completion.exit_code != 0 and answer.reason in ("passed", "red"):
            return self._result(
                "crashed", f"exit {completion.exit_code} after its result", completion
            )
        result = self._answered(answer.reason, answer.feedback, completion)
        return (
            result.model_copy(update={"exit_code": None}) if result.passed else result
        )


def _is_written_by_the_agent(entry: str, workspace: str) -> bool:
    """Return whether a folder lies in the workspace, and not in the runner's own environment there (.venv)."""
    folder = Path(os.path.realpath(entry))
    if not folder.is_relative_to(workspace):
        return False
    roots = (Path(os.path.realpath(prefix)) for prefix in (sys.prefix, sys.base_prefix))
    return not any(
        folder.is_relative_to(root) and Path(workspace) in root.parents
        for root in roots
    )


class CallableValidator(NamedValidator):
    """Calls `function(response, agent)`, or `function(response)`; `agent` is the conversation, with `messages`.

    A coroutine function runs in the loop and must not block it. Exceptions are red; KeyboardInterrupt and cancellation
    pass. `timeout` is in seconds; None: no limit.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        *,
        timeout: float | None = DEFAULT_VALIDATOR_TIMEOUT,
        serial: bool = False,
        hidden: bool = False,
    ) -> None:
        self._function = function
        self._timeout = timeout
        own = getattr(function, "__name__", type(function).__name__)
        self.name = name or (own if own != "<lambda>" else "validator")
        module = getattr(function, "__module__", None) or "?"
        self.command = f"{module}:{getattr(function, '__qualname__', self.name)}"
        self.serial = serial
        self.hidden = hidden

    async def validate(self, context: ValidationContext) -> Answer:
        """Call it once; there is no output file."""
        began = time.monotonic()
        outcome, failure, why = await called(
            self._function, context, self._timeout, callable_outcome
        )
        result = self._answered(
            *(
                (failure, why)
                if outcome is None
                else cast("tuple[Reason, str]", outcome)
            )
        )
        return result.model_copy(update={"duration": time.monotonic() - began}), None


async def called(
    function: Callable[..., Any],
    context: ValidationContext,
    timeout: float | None,
    read: Callable[[object], _Read],
) -> tuple[_Read | None, Literal["crashed", "timeout"], str]:
    """Call `function(response, agent)`; return what `read` makes of its value, or None, and why there is none.

    A plain function runs in a thread, so that the deadline can cut the wait for it; a coroutine function is awaited.
    """
    call = function if inspect.isroutine(function) else type(function).__call__
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            arguments = arguments_of(
                function, response_message(context.response), context.conversation
            )
            is_async = inspect.iscoroutinefunction(call)
            value = (
                function(*arguments)
                if is_async
                else await in_thread(function, *arguments)
            )
            return (
                read(await value if inspect.isawaitable(value) else value),
                "crashed",
                "",
            )
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (
            task is None or task.cancelling()
        ):
            raise  # else the callable itself raised it
        if isinstance(error, TimeoutError) and deadline.expired():
            return None, "timeout", f"timed out after {timeout:g} s"
        return None, "crashed", traceback_end(error)
