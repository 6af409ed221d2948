"""Python callables as validators, in a child process or in this one."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
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
from goalrunner.system.event_loop import in_thread
from goalrunner.validators import child
from goalrunner.validators.child import arguments_of, callable_outcome, traceback_end
from goalrunner.validators.spec_validator import (
    Answer,
    CheckPlace,
    NamedValidator,
    Reason,
    SpecValidator,
)

_Read = TypeVar("_Read")

_FOLDER = re.compile(r'^(  File ")[^"\n]*[/\\]', re.MULTILINE)
"""The folder of a file in a line of a traceback."""


def response_message(text: str) -> dict[str, Any]:
    """Return the round's last message as validators of Strands' GoalLoop get it."""
    return {"role": "assistant", "content": [{"text": text}]}


class _ChildAnswer(Frozen):
    nonce: str
    reason: Reason
    feedback: str


class PythonValidator(SpecValidator):
    """Calls `spec.python` (`package.module:function`) in a child process.

    The function gets `(response, agent)`. The interpreter is the runner's own. A module
    is looked for in PYTHONPATH, among what is installed, in what else the runner can
    import, and in the workspace last: a file that the agent writes replaces neither an
    installed check nor what it imports. Folders of PYTHONPATH inside the workspace
    count as the workspace.
    """

    scores = False
    """Whether the function returns a score instead."""

    async def _attempt_in(
        self, context: ValidationContext, place: CheckPlace
    ) -> Answer:
        # The nonce shows that the answer was written by the child, not by the agent.
        nonce, folder = secrets.token_hex(16), context.scratch(".answer")
        answer = folder / "result.json"
        try:
            folder.mkdir(mode=0o700)
            # -I: neither the workspace nor PYTHON* may change what runs before the
            # callable is loaded.
            argv = [sys.executable, "-I", "-B", "-u", "-X", "utf8", child.__file__]
            request = self._request(context, place, nonce, answer)
            place = replace(place, shared=(*place.shared, folder))
            completion = await self._launch(argv, context, place, request)
            result = self._cut_short(completion)
            if result is None:
                result = self._judged(completion, answer, nonce)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not completion.output.exists():
            return result, None
        # The feedback of a deadline is the output itself.
        if result.feedback and result.reason != "timeout":
            with completion.output.open("ab") as file:
                file.write(result.feedback.encode(errors="replace") + b"\n")
        return result, completion.output

    def _request(
        self, context: ValidationContext, place: CheckPlace, nonce: str, result: Path
    ) -> bytes:
        """Return the request to the child, as JSON."""
        workspace = os.path.realpath(place.workspace)
        python_path = place.env.get("PYTHONPATH", "").split(os.pathsep)
        # Links are not resolved: packages may be installed through them.
        first = [
            os.path.join(place.folder, entry)  # noqa: PTH118
            for entry in python_path
            if entry
        ]
        installed = [
            os.path.abspath(entry)  # noqa: PTH100
            for entry in sys.path
            if entry
        ]
        agents_own = [
            entry
            for entry in (*first, *installed)
            if _is_written_by_the_agent(entry, workspace)
        ]
        folders = dict.fromkeys([str(place.folder), workspace, *agents_own])
        request: dict[str, Any] = {
            "target": self.command,
            "response": response_message(context.response),
            "messages": list(context.conversation.messages),
            "first": [entry for entry in first if entry not in agents_own],
            "installed": [entry for entry in installed if entry not in agents_own],
            "workspace": list(folders),
            "result": str(result),
            "nonce": nonce,
            "scores": self.scores,
        }
        # Messages may hold objects of a framework.
        return json.dumps(request, default=str).encode()

    def _judged(
        self, completion: Completion, path: Path, nonce: str
    ) -> ValidatorResult:
        """Return the result of a child that ended by itself, by its answer."""
        answer = _read_answer(path, nonce)
        code = completion.exit_code
        if answer is None:
            problem = f"ended without a result (exit {code})"
            return self._result("crashed", problem, completion)
        if code != 0 and answer.reason in ("passed", "red"):
            problem = f"exit {code} after its result"
            return self._result("crashed", problem, completion)
        result = self._answered(answer.reason, answer.feedback, completion)
        return result.model_copy(update={"exit_code": None} if result.passed else {})


def _read_answer(path: Path, nonce: str) -> _ChildAnswer | None:
    """Return the answer of a child; None if there is none with its nonce."""
    try:
        answer = _ChildAnswer.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    is_own = secrets.compare_digest(answer.nonce.encode(), nonce.encode())
    return answer if is_own else None


def _is_written_by_the_agent(entry: str, workspace: str) -> bool:
    """Return whether a folder lies in the workspace.

    The runner's own environment there (.venv) does not count.
    """
    folder = Path(os.path.realpath(entry))
    if not folder.is_relative_to(workspace):
        return False
    for prefix in (sys.prefix, sys.base_prefix):
        environment = Path(os.path.realpath(prefix))
        is_in_workspace = Path(workspace) in environment.parents
        if is_in_workspace and folder.is_relative_to(environment):
            return False
    return True


class CallableValidator(NamedValidator):
    """Calls `function(response, agent)`, or `function(response)`.

    `agent` is the conversation, with `messages`. A coroutine function runs in the loop
    and must not block it. Exceptions are red; KeyboardInterrupt and cancellation pass.
    `timeout` is in seconds; None: no limit.
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
        function_name = getattr(function, "__name__", type(function).__name__)
        if function_name == "<lambda>":
            function_name = "validator"
        self.name = name or function_name
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
        if outcome is None:
            result = self._answered(failure, why)
        else:
            reason, feedback = cast("tuple[Reason, str]", outcome)
            result = self._answered(reason, feedback)
        return result.model_copy(update={"duration": time.monotonic() - began}), None


async def called(
    function: Callable[..., Any],
    context: ValidationContext,
    timeout: float | None,
    read: Callable[[object], _Read],
) -> tuple[_Read | None, Literal["crashed", "timeout"], str]:
    """Call `function(response, agent)`; return what `read` makes of its value.

    If there is no value, return None, and why.
    """
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            return read(await _value_of(function, context)), "crashed", ""
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        if isinstance(error, TimeoutError) and deadline.expired():
            return None, "timeout", f"timed out after {timeout:g} s"
        # A model gets this text, and the folders concern only this machine.
        return None, "crashed", _FOLDER.sub(r"\1", traceback_end(error))


async def _value_of(function: Callable[..., Any], context: ValidationContext) -> object:
    message = response_message(context.response)
    arguments = arguments_of(function, message, context.conversation)
    # Of an object with __call__, the method shows whether it is a coroutine function.
    call = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(call):
        value = function(*arguments)
    else:
        # In a thread, so that the deadline can cut the wait for it.
        value = await in_thread(function, *arguments)
    return await value if inspect.isawaitable(value) else value


def _is_cancelled() -> bool:
    """Return whether this task is cancelled; else the callable itself raised it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
