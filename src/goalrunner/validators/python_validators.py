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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from goalrunner.core.base import Frozen
from goalrunner.core.check_ports import ValidationContext
from goalrunner.core.goal import DEFAULT_VALIDATOR_TIMEOUT
from goalrunner.core.process_ports import Completion
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import in_thread
from goalrunner.validators import child
from goalrunner.validators.child import last_lines, outcome_of
from goalrunner.validators.output import bounded
from goalrunner.validators.spec_validator import Answer, NamedValidator, Reason, SpecValidator


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

    async def _checked(
        self, context: ValidationContext, cwd: Path, env: Mapping[str, str], shared: Sequence[Path]
    ) -> Answer:
        nonce, answers = secrets.token_hex(16), context.scratch(".answer")
        path = answers / "result.json"
        try:
            answers.mkdir(mode=0o700)
            completion = await self._launcher.launch(
                # -I: neither the workspace nor PYTHON* may change what runs before the callable is loaded.
                [sys.executable, "-I", "-B", "-u", "-X", "utf8", child.__file__],
                cwd=cwd,
                env=env,
                output=context.scratch(".out"),
                timeout=self._spec.timeout,
                stdin=self._request(context, cwd, env, nonce, path),
                shared=(*shared, answers),
            )
            result = self._cut_short(completion) or self._judged(completion, path, nonce)
        finally:
            shutil.rmtree(answers, ignore_errors=True)
        if not completion.output.exists():
            return result, None
        if result.feedback and result.reason != "timeout":
            with completion.output.open("ab") as file:
                file.write(result.feedback.encode(errors="replace") + b"\n")
        return result, completion.output

    def _request(
        self, context: ValidationContext, cwd: Path, env: Mapping[str, str], nonce: str, result: Path
    ) -> bytes:
        workspace = os.path.realpath(context.workspace)
        given = [os.path.join(cwd, entry) for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]  # noqa: PTH118
        known = [os.path.abspath(entry) for entry in sys.path if entry]  # noqa: PTH100 - a link stays one
        within = [entry for entry in (*given, *known) if _is_written_by_the_agent(entry, workspace)]
        request: dict[str, Any] = {
            "target": self.command,
            "response": response_message(context.response),
            "messages": list(context.conversation.messages),
            "first": [entry for entry in given if entry not in within],
            "installed": [entry for entry in known if entry not in within],
            "workspace": list(dict.fromkeys([str(cwd), workspace, *within])),
            "result": str(result),
            "nonce": nonce,
        }
        return json.dumps(request, default=str).encode()

    def _judged(self, completion: Completion, path: Path, nonce: str) -> ValidatorResult:
        try:
            answer = _ChildAnswer.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            answer = None
        if answer is None or not secrets.compare_digest(answer.nonce.encode(), nonce.encode()):
            return self._result("crashed", f"ended without a result (exit {completion.exit_code})", completion)
        if completion.exit_code != 0 and answer.reason in ("passed", "red"):
            return self._result("crashed", f"exit {completion.exit_code} after its result", completion)
        feedback = bounded(answer.feedback)
        result = self._result(answer.reason, _summary(answer.reason, feedback), completion, feedback)
        return result.model_copy(update={"exit_code": None}) if result.passed else result


def _summary(reason: Reason, feedback: str) -> str:
    if reason == "passed":
        return "passed"
    lines = feedback.strip().splitlines() or ["not passed"]
    return lines[0] if reason == "red" else lines[-1]


def _is_written_by_the_agent(entry: str, workspace: str) -> bool:
    """Return whether a folder lies in the workspace, and not in the runner's own environment there (.venv)."""
    folder = Path(os.path.realpath(entry))
    if not folder.is_relative_to(workspace):
        return False
    roots = (Path(os.path.realpath(prefix)) for prefix in (sys.prefix, sys.base_prefix))
    return not any(folder.is_relative_to(root) and Path(workspace) in root.parents for root in roots)


class CallableValidator(NamedValidator):
    """Calls `function(response, agent)`; `agent` is the conversation, with `messages`.

    A plain function runs in a thread, so that the deadline (seconds; None: no limit) can cut the wait for it; a coroutine
    function runs in the loop and must not block it. Exceptions are red; KeyboardInterrupt and cancellation pass.
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
        """Call it once; there is no output beside the feedback."""
        began = time.monotonic()
        result = await self._called(context)
        return result.model_copy(update={"duration": time.monotonic() - began}), None

    async def _called(self, context: ValidationContext) -> ValidatorResult:
        deadline = asyncio.timeout(self._timeout)
        try:
            async with deadline:
                reason, feedback = outcome_of(await self._value(context))
                known: Reason = cast(Reason, reason)
                return self._result(known, _summary(known, feedback), feedback=bounded(feedback))
        except TimeoutError as error:
            if deadline.expired():
                return self._result("timeout", f"timed out after {self._timeout:g} s")
            return self._crashed(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._crashed(error)  # raised by the callable itself
        except (Exception, SystemExit) as error:
            return self._crashed(error)

    def _crashed(self, error: BaseException) -> ValidatorResult:
        text = last_lines(error)
        return self._result("crashed", _summary("crashed", text), feedback=text)

    async def _value(self, context: ValidationContext) -> Any:
        arguments = (response_message(context.response), context.conversation)
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*arguments)
        value = await in_thread(self._function, *arguments)
        return await value if inspect.isawaitable(value) else value
