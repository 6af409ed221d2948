"""An agent's program as a model without tools: one process for each answer."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from goalrunner.agents.agent_errors import remedy_of
from goalrunner.agents.invocation import LONGEST_WORD
from goalrunner.agents.program_answer import (
    UNREPORTED,
    ProgramFailure,
    failure_in,
    read_answer,
)
from goalrunner.agents.program_call import ProgramCall, ProgramChoice, prompt_of
from goalrunner.agents.program_files import changed_file, program_path, watched_files
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import (
    AuthenticationFailed,
    ContextWindowExceeded,
    JudgeChanged,
    ModelError,
    ModelNotFound,
    Outage,
    ProviderUnavailable,
    RequestRejected,
)
from goalrunner.core.events import Account, ProgramRecord
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Completion
from goalrunner.llm import LLM, Tape
from goalrunner.llm.failure import (
    TRANSIENT,
    FailureKind,
    ProviderFailure,
    shorten_failure,
)
from goalrunner.llm.requests import Draft, Request
from goalrunner.records.redaction import Redactor
from goalrunner.system.child_environment import child_environment
from goalrunner.system.event_loop import in_thread
from goalrunner.system.launcher import ProcessLauncher, tail_of

OUTPUT_LIMIT = 32_000_000
"""Bytes that the program may print in one call."""

# Seconds for the answer to a trial question, which a signed-in program gives in a few.
_TRIAL_TIMEOUT = 60.0
_TRIAL = (
    'Is this readable? Answer with one JSON object and nothing else: {"ready": true}'
)
_TRIAL_SCHEMA = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}


class ProgramModel(LLM):
    """An agent's program that answers questions without tools, in an empty folder.

    It uses the program's own login. Its path is resolved once, outside of the
    `workspaces`. Its settings, memory, hooks and plugins are recorded when the run
    begins, or else before its first answer. After a change of them it gives no more
    answers: JudgeChanged.
    """

    def __init__(
        self,
        choice: ProgramChoice,
        environ: Mapping[str, str],
        *,
        workspaces: Sequence[Path] = (),
        account: Account = "judge",
        tape: Tape | None = None,
        timeout: float | None = None,
    ) -> None:
        """`environ` is the runner's; `timeout` is in seconds, for one answer."""
        params = {"timeout": timeout} if timeout else {}
        super().__init__(choice.label, account=account, tape=tape, params=params)
        self.choice = choice
        self.environ = dict(environ)
        self._workspaces = tuple(workspaces)
        self._record: ProgramRecord | None = None
        self._path = program_path(choice.preset, environ, self._workspaces)

    @property
    def preset(self) -> Preset:
        return self.choice.preset

    @property
    def record(self) -> ProgramRecord:
        """The path of the program and its watched files.

        The files are read when this is first used.
        """
        if self._record is None:
            self._record = ProgramRecord(path=self._path, files=self._files())
        return self._record

    def keep(self, record: ProgramRecord) -> None:
        """Use the program that an earlier process of the run recorded."""
        # A program that was installed since the run began must not judge it.
        self._record = record
        self._path = record.path

    def check(self) -> None:
        """Raise ModelNotFound if the program is not installed."""
        if self._path:
            return
        program = self.preset.judge.argv[0]
        default_hint = f"install {program}, or name another {self.account}"
        where = " outside of the workspace" if self._workspaces else ""
        raise ModelNotFound(
            f"{self.account} {self.choice.name}: the program {program} was not "
            f"found{where}",
            self.preset.install or default_hint,
        )

    async def probe(self) -> str:
        """Ask one short question, to learn before any work whether the program answers.

        Return a warning if it gives no answer. Raise AuthenticationFailed,
        ModelNotFound or RequestRejected.
        """
        await self.prepare()
        limit = min(_TRIAL_TIMEOUT, self._timeout)
        question = [{"role": "user", "content": _TRIAL}]
        request = Request(question, schema=_TRIAL_SCHEMA, timeout=limit)
        try:
            reply = await self.attempt(request)
        except ProviderFailure as failure:
            error = self.explained(failure)
            # What passes by itself must not stop a run before it began.
            if failure.kind in TRANSIENT:
                return error.message
            raise error from failure
        finally:
            self.usage = self.usage + request.spent
        # What the program itself wrote during the trial, such as settings in a newer
        # form, is no change by the agent.
        files = await in_thread(self._files)
        self._record = self.record.model_copy(update={"files": files})
        if reply.text.strip():
            return ""
        return f"{self.model} gave no answer of the wanted form to a trial question"

    async def prepare(self) -> None:
        self.check()
        await in_thread(self._refuse_changes)

    async def send(self, request: Request, draft: Draft) -> None:
        # An empty folder, so that the program reads no instructions of a project.
        with tempfile.TemporaryDirectory(
            prefix="goal-judge-", ignore_cleanup_errors=True
        ) as root:
            call = ProgramCall(
                self.choice,
                self._path,
                Path(root),
                json.dumps(request.schema or {"type": "object"}),
                prompt_of(request.messages),
            )
            argv = call.prepare()
            self._refuse_long(call.stdin, argv)
            output, errors = call.root / "output", call.root / "errors"
            completion = await self._launched(call, argv, output, errors)
            printed = output.read_bytes() if output.exists() else b""
            stderr = tail_of(errors)
        answer = await in_thread(read_answer, self.preset, printed)
        draft.report = answer.usage
        failure = failure_in(self.choice, answer, completion, stderr)
        if failure is not None:
            if answer.usage.uncounted_calls:
                # Nothing shows that the provider was asked.
                draft.report = None
            raise failure
        draft.add_text(answer.text)
        draft.finish_reason = "stop"

    async def _launched(
        self, call: ProgramCall, argv: Sequence[str], output: Path, errors: Path
    ) -> Completion:
        """Run the program to its end."""
        # The limit of a launcher is for all that its process prints, so one a call.
        launcher = ProcessLauncher(OUTPUT_LIMIT)
        try:
            return await launcher.launch(
                argv,
                cwd=call.folder,
                env=self._environment(call),
                output=output,
                errors=errors,
                stdin=call.stdin,
            )
        finally:
            launcher.close()

    def used(self, request: Request, draft: Draft) -> Usage:
        return draft.report or UNREPORTED

    def has_price(self) -> bool:
        return "cost_usd" in self.preset.judge.reports

    def explained(self, failure: ProviderFailure, retries: int = 0) -> ModelError:
        """Return the error for users."""
        status = f" ({failure.status})" if failure.status else ""
        message = shorten_failure(self._redacted(failure.message))
        reason = f"{status}: {message}"
        who = f"the {self.account} {self.model}"
        match failure.kind:
            case FailureKind.AUTHENTICATION:
                hint = f"sign in to {self.choice.name}, or export its key"
                return AuthenticationFailed(
                    f"{who} has no valid key or login{reason}",
                    self.preset.sign_in or hint,
                )
            case FailureKind.MODEL:
                # With a status, the provider refused the model; without one, the
                # program did not start.
                hint = f"correct [{self.account}] model"
                if not failure.status:
                    hint = self.preset.install or "name another one"
                return ModelNotFound(f"{who} cannot be used{reason}", hint)
            case FailureKind.CONTEXT:
                return ContextWindowExceeded(
                    f"the prompt is too long for {who}{reason}",
                    f"lower [{self.account}] max_tokens, or name another model",
                )
            case kind if kind in TRANSIENT:
                return self._unavailable(failure, retries, reason)
        hint = f"goal agents {self.choice.name} tests it"
        remedy = remedy_of(self.preset, failure.message)
        return RequestRejected(f"{who} failed{reason}", remedy or hint)

    def _unavailable(
        self, failure: ProviderFailure, retries: int, reason: str
    ) -> ProviderUnavailable:
        """Return the error for a failure that passes; `reason` is the shown one."""
        after = ""
        if retries:
            after = f" after {retries} {'retry' if retries == 1 else 'retries'}"
        outage = None
        if isinstance(failure, ProgramFailure):
            outage = failure.outage
        outage = outage or Outage("overload", str(failure.kind))
        return ProviderUnavailable(
            f"the {self.account} {self.model} did not answer{after}: "
            f"{failure.kind}{reason}",
            "goal resume continues the run when the program answers again",
            outage=replace(outage, was_retried=True),
        )

    def _redacted(self, text: str) -> str:
        """Return a text without the values of the program's keys."""
        return Redactor(self.environ, names=tuple(self.preset.keys)).text(text)

    def _refuse_long(self, stdin: bytes, argv: Sequence[str]) -> None:
        """Raise ContextWindowExceeded for a prompt that the program would cut."""
        # Programs cut a long prompt without an error, and the system a long word.
        longest_word = max(len(os.fsencode(word)) for word in argv)
        if len(stdin) <= self.preset.judge.longest and longest_word <= LONGEST_WORD:
            return
        size = max(len(stdin), longest_word)
        raise ContextWindowExceeded(
            f"the prompt for {self.model} has {size:,} bytes, "
            "more than the program reads",
            f"lower [{self.account}] max_tokens, or name another {self.account}",
        )

    def _files(self) -> dict[str, str]:
        """Return the watched files with their digests.

        The program is among them, with its real path, since it may be a link.
        """
        files = watched_files(self.preset, self.environ)
        if os.access(self._path, os.X_OK):
            files[self._path] = os.path.realpath(self._path)
        return files

    def _refuse_changes(self) -> None:
        """Raise JudgeChanged if the program or a watched file has changed."""
        path = changed_file(self.record.files, self._files())
        if path:
            raise JudgeChanged(
                f"{path} was changed during the run, "
                f"so {self.choice.name} cannot be the {self.account} any more",
                "restore the file and type goal resume, or start a new run",
            )

    def _environment(self, call: ProgramCall) -> dict[str, str]:
        """Return the environment of the program.

        It is that of the runner, with no keys but the program's, and without the
        folders of a workspace in PATH.
        """
        preset = self.preset
        keys = [name for name in preset.keys if name in self.environ]
        extra = {name: self.environ[name] for name in keys}
        extra |= preset.env | call.variables
        env = child_environment(self.environ, extra=extra)
        entries = env.get("PATH", os.defpath).split(os.pathsep)
        env["PATH"] = os.pathsep.join(filter(self._is_outside, entries))
        return env

    def _is_outside(self, entry: str) -> bool:
        """Return whether an entry of PATH is absolute and outside of the workspaces."""
        if not Path(entry).is_absolute():
            return False
        folder = Path(os.path.realpath(entry))
        return not any(folder.is_relative_to(root) for root in self._workspaces)
