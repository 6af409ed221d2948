"""The workspaces of OpenHands: a folder here, or a command interface to another one."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

from goalrunner import Goal, ValidatorSpec
from goalrunner.adapters.framework import framework_module
from goalrunner.app.run_options import RunKeywords, refuse_processes, split_checks
from goalrunner.core.errors import UsageError, kind_of, one_line
from goalrunner.core.ports import Completion, ValidationContext
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.child_environment import child_environment
from goalrunner.system.event_loop import in_thread
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.runner_reports import Reports
from goalrunner.validators.shell_validator import ShellValidator
from goalrunner.validators.spec_validator import Answer, CheckPlace

_LONGEST = 3600.0
"""Seconds of a command without a time limit; the interface needs one."""
_NO_ANSWER = -1
"""The exit code that the interface gives for a command without one."""


def workspace_of(conversation: Any) -> Any:
    """Return the workspace of a conversation.

    Raise ImportError without the SDK, and UsageError for anything else.
    """
    sdk = framework_module("openhands.sdk", "openhands")
    if not isinstance(conversation, sdk.BaseConversation):
        raise UsageError(
            f"{kind_of(conversation)} is not a conversation of OpenHands",
            "pass Conversation(agent=..., workspace=...)",
        )
    # The state of a remote conversation has only a description of it.
    workspace = getattr(conversation, "workspace", None)
    return conversation.state.workspace if workspace is None else workspace


def local_folder(workspace: Any) -> Path | None:
    """Return the folder of a workspace on this machine; None if it is elsewhere."""
    sdk = framework_module("openhands.sdk", "openhands")
    if not isinstance(workspace, sdk.LocalWorkspace):
        return None
    return Path(workspace.working_dir).resolve()


class RemoteValidator(ShellValidator):
    """Runs `spec.run` through the command interface of a workspace.

    The interface has no reports of test runners, so their summaries in the output
    count.
    """

    is_remote = True

    def __init__(self, spec: ValidatorSpec, workspace: Any) -> None:
        super().__init__(spec, ProcessLauncher(), child_environment(os.environ))
        self._remote = workspace

    async def _attempt(self, context: ValidationContext) -> Answer:
        # Scripts of the line are not here to be read.
        folder = context.scratch(".remote")
        folder.mkdir()
        try:
            return await self._attempt_in(context, CheckPlace(folder, folder, {}))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _run_reporting(
        self, context: ValidationContext, place: CheckPlace, texts: str
    ) -> tuple[Completion, Reports]:
        began = time.monotonic()
        output = context.scratch(".out")
        try:
            result = await in_thread(self._execute)
        except Exception as error:
            reason = one_line(f"{type(error).__name__}: {error}")
            why = f"the workspace did not run the command: {reason}"
            output.write_text(f"{why}\n")
            duration = time.monotonic() - began
            return Completion(None, duration, False, output, why), Reports()
        text = f"{result.stdout}{result.stderr}"
        output.write_bytes(text.encode(errors="replace"))
        why = ""
        if result.exit_code == _NO_ANSWER and not result.timeout_occurred:
            why = f"the workspace did not run the command: {one_line(text)}"
        completion = Completion(
            exit_code=result.exit_code,
            duration=time.monotonic() - began,
            timed_out=result.timeout_occurred,
            output=output,
            error=why,
        )
        return completion, Reports()

    def _execute(self) -> Any:
        spec = self._spec
        folder = f"{self._remote.working_dir}/{spec.cwd}".rstrip("/")
        settings = [f"export {name}={shlex.quote(spec.env[name])}" for name in spec.env]
        line = "\n".join([*settings, self.command])
        return self._remote.execute_command(
            line, cwd=folder, timeout=spec.timeout or _LONGEST
        )

    def _with_obstacle(
        self,
        result: ValidatorResult,
        output: str,
        context: ValidationContext,
        place: CheckPlace,
    ) -> ValidatorResult:
        # What is installed here says nothing about the other machine.
        if result.reason != "crashed":
            return result
        return result.model_copy(update={"cannot_run": True})


def with_remote_checks(
    goal: str | Goal, options: RunKeywords, workspace: Any
) -> tuple[str | Goal, RunKeywords]:
    """Return goal and keywords, with the commands among their validators as remote.

    Raise UsageError for a validator that cannot run in another workspace.
    """
    commands, callables = split_checks(options.get("validators", ()))
    specs = [*commands]
    if isinstance(goal, Goal):
        specs = [*goal.validators, *specs]
        goal = goal.model_copy(update={"validators": ()})
    remote: list[RemoteValidator] = []
    if options.get("records") == "none":
        refuse_processes(specs)
    for spec in specs:
        _refuse_local_check(spec)
        remote.append(RemoteValidator(spec, workspace))
    changed = options.copy()
    changed["validators"] = (*remote, *callables)
    return goal, changed


def _refuse_local_check(spec: ValidatorSpec) -> None:
    """Raise UsageError for a validator that needs the files on this machine."""
    fields = {
        "python": spec.python,
        "hidden": spec.hidden,
        "known_failures": spec.known_failures,
        "pass_env": spec.pass_env,
    }
    for name, value in fields.items():
        if value:
            raise UsageError(
                f"{name} of a validator needs the workspace on this machine",
                "remove it, or use a conversation with a LocalWorkspace",
            )
