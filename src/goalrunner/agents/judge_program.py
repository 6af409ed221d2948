"""An agent's program as a model without tools: one process for each answer, with the program's own login."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalrunner.agents.agent_errors import (
    NOT_STARTED,
    failed,
    first_lines,
    last_lines,
)
from goalrunner.agents.error_kinds import ErrorMeaning
from goalrunner.agents.external_agents import LONGEST_WORD, ExternalAgent
from goalrunner.agents.output_reader import Reader
from goalrunner.agents.parser import (
    Failed,
    Lines,
    Noise,
    Text,
    TextDelta,
    UsageReported,
    first,
    number,
    object_in,
)
from goalrunner.agents.process_end import EXIT_OUTAGES, ending_of
from goalrunner.agents.turn import usage_delta
from goalrunner.core.agent_ports import Message
from goalrunner.core.agent_preset import TEXT, Preset
from goalrunner.core.errors import (
    AgentNotSignedIn,
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
from goalrunner.core.messages import clean, text_of
from goalrunner.core.outages import outage_of
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Completion
from goalrunner.llm import LLM, Tape
from goalrunner.llm.failure import (
    TRANSIENT,
    FailureKind,
    ProviderFailure,
    classify,
    shorten_failure,
)
from goalrunner.llm.requests import Draft, Request
from goalrunner.system.child_environment import child_environment
from goalrunner.system.event_loop import in_thread
from goalrunner.system.launcher import ProcessLauncher, program_outside, tail_of

OUTPUT_LIMIT = 32_000_000
"""Bytes that the program may print in one call."""

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

_STATUS = re.compile(r"\b(?:status|code)\W{1,4}([45]\d\d)\b")
"""The HTTP status in the message of a failure: `"code":429`, `last status: 429`."""


@dataclass(frozen=True)
class ProgramChoice:
    """A program that answers: the name of the agent, its preset, and its model in its own naming; empty: its default."""

    name: str
    preset: Preset
    model: str = ""

    @property
    def label(self) -> str:
        """The name for people."""
        return f"{self.name} {self.model}".strip()


UNREPORTED = Usage(cost_usd=None, uncounted_calls=1)
"""The usage of a call that was not reported, without a count of calls."""


@dataclass
class ProgramAnswer:
    """What a program said in one call."""

    text: str = ""
    """The structured answer as JSON, or else the last message."""
    failed: Failed | None = None
    """The failure that it reported last, if no message followed."""
    status: int | None = None
    """The HTTP status of the failure, if its output names one."""
    noise: str = ""
    """The last output that was not understood."""
    usage: Usage = field(default_factory=lambda: UNREPORTED)
    """Without a count of calls; unknown if nothing was reported."""


def read_answer(preset: Preset, output: bytes) -> ProgramAnswer:
    """Return the answer in the output of a program."""
    answer, reports = ProgramAnswer(), []
    reader, streamed = Reader(preset.stream), ""
    for event in (*reader.feed(output), *reader.feed(b"", final=True)):
        match event:
            case Text(text=text):
                answer.text, answer.failed, streamed = text, None, ""
            case TextDelta(text=text):
                streamed += text
                answer.failed = None
            case Failed():
                answer.failed = event
            case UsageReported():
                reports.append(event)
            case Noise(text=text):
                answer.noise = text
    if streamed:
        answer.text = streamed
    lines = (
        []
        if preset.stream == TEXT
        else [object_in(line) for line in Lines().feed(output + b"\n")]
    )
    values = [line for line in lines if line is not None]
    if preset.judge.answer:
        value = _last(values, preset.judge.answer)
        if value is None:
            answer.text = ""
        else:
            answer.text = value if isinstance(value, str) else json.dumps(value)
    status = number(_last(values, preset.judge.status)) if preset.judge.status else None
    named = _STATUS.search(answer.failed.message) if answer.failed else None
    answer.status = int(status) if status else int(named[1]) if named else None
    answer.usage = _used(reports) or answer.usage
    return answer


def _last(values: Sequence[dict[str, Any]], path: str) -> Any:
    """Return the last value at a dotted path that is not null."""
    return next(
        (
            value
            for line in reversed(values)
            if (value := first(line, path)) is not None
        ),
        None,
    )


def _used(reports: Iterable[UsageReported]) -> Usage | None:
    """Return the usage of one process by its reports; None if none is about tokens."""
    used, total, counts_tokens = Usage(), Usage(), False
    for report in reports:
        new, total = usage_delta(report, total)
        used = used + new
        counts_tokens = counts_tokens or report.tokens
    return used.model_copy(update={"calls": 0}) if counts_tokens else None


class ProgramFailure(ProviderFailure):
    """A failed call of a program. `outage` is what the program reports of a failure that passes by itself."""

    def __init__(
        self,
        message: str,
        kind: FailureKind,
        status: int | None = None,
        outage: Outage | None = None,
    ) -> None:
        resets_at = outage.resets_at if outage is not None else None
        wait = (
            max(0.0, (resets_at - datetime.now(UTC)).total_seconds())
            if resets_at is not None
            else None
        )
        super().__init__(message, status=status, retry_after=wait, kind=kind)
        self.outage = outage


def failure_in(
    choice: ProgramChoice, answer: ProgramAnswer, completion: Completion, errors: str
) -> ProgramFailure | None:
    """Return the failure of a call; None if there is an answer, which may be empty.

    Only typed output and the exit codes of the preset say that a failure passes. Other exit codes prove nothing.
    """
    preset, code, how = choice.preset, completion.exit_code, ending_of(completion)
    reported = answer.failed or Failed("")
    if code in NOT_STARTED and not (answer.text or answer.failed):
        return ProgramFailure(
            completion.error or first_lines(errors) or how, FailureKind.MODEL
        )
    if code is None:
        return ProgramFailure(completion.error or how, FailureKind.CUT)
    if answer.failed is None and (answer.text or code == 0):
        return None
    said = reported.message or last_lines(errors) or answer.noise or how
    if any(text.lower() in said.lower() for text in preset.judge.unfit):
        return None
    outage, obstacle, status = reported.outage, reported.obstacle, answer.status
    if outage is None and obstacle is None:
        meaning = preset.exit_codes.get(code)
        outage = EXIT_OUTAGES.get(meaning) if meaning else outage_of(status)
        obstacle = "sign_in" if meaning == "sign_in" else None
    external = ExternalAgent(choice.name, preset, Path(), {})
    known = failed(
        external, reported.message, how, errors, ErrorMeaning(outage, obstacle)
    )
    if isinstance(known, AgentNotSignedIn) or (status in (401, 403) and outage is None):
        return ProgramFailure(said, FailureKind.AUTHENTICATION, status)
    if outage is not None:
        kind = FailureKind.RATE_LIMIT if outage.kind == "limit" else FailureKind.SERVER
        return ProgramFailure(said, kind, status, outage)
    return ProgramFailure(
        said, classify(status, said) if status else FailureKind.REJECTED, status
    )


def prompt_of(messages: Sequence[Message]) -> tuple[str, str]:
    """Return the rules, which are the system messages, and the rest of the chat as one prompt.

    The process has no memory, so earlier answers are quoted in the prompt.
    """
    rules = [
        text_of(message.get("content"))
        for message in messages
        if message.get("role") == "system"
    ]
    chat = [message for message in messages if message.get("role") != "system"]
    if len(chat) < 2:
        return "\n\n".join(rules), "".join(
            text_of(message.get("content")) for message in chat
        )
    heads = {"assistant": "Your answer was:", "user": "The next message to you:"}
    parts = [text_of(chat[0].get("content"))]
    parts += [
        f"{heads.get(str(message.get('role')), '')}\n{text_of(message.get('content'))}"
        for message in chat[1:]
    ]
    return "\n\n".join(rules), "\n\n".join(parts)


def watched_files(preset: Preset, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the watched files that exist by path, with the SHA-256 of their content."""
    digests: dict[str, str] = {}
    for path in watched_paths(preset, environ):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                digests[str(file)] = _digest(file)
    return digests


def watched_paths(preset: Preset, environ: Mapping[str, str]) -> list[Path]:
    """Return the watched paths, which may not exist. A variable may name a folder in place of one below HOME.

    Some programs look for the same files in the folders above the one in which they run.
    """
    home = Path(environ.get("HOME") or "/")
    temporary = Path(os.path.realpath(tempfile.gettempdir()))
    paths = [
        folder / name
        for folder in (temporary, *temporary.parents)
        for name in preset.judge.watched
    ]
    for name in preset.judge.watched:
        path = home / name
        for variable, folder in preset.judge.folders.items():
            own = environ.get(variable, "")
            if Path(own).is_absolute() and path.is_relative_to(home / folder):
                path = Path(own, path.relative_to(home / folder))
        paths.append(path)
    return paths


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def changed_file(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the first path that was added, removed or changed; empty if there is none."""
    return next(
        (path for path in sorted({*before, *now}) if before.get(path) != now.get(path)),
        "",
    )


class ProgramModel(LLM):
    """An agent's program that answers questions without tools, in an empty folder.

    Its path is resolved once, outside of the `workspaces`. Its settings, memory, hooks and plugins are recorded when the
    run begins, or else before its first answer; after a change of them it answers no more: JudgeChanged.
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
        """`environ` is the environment of the runner. `timeout` in seconds, for one answer."""
        super().__init__(
            choice.label,
            account=account,
            tape=tape,
            params={"timeout": timeout} if timeout else {},
        )
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
        """The path of the program and its watched files; they are looked at when this is first read."""
        if self._record is None:
            self._record = ProgramRecord(path=self._path, files=self._files())
        return self._record

    def keep(self, record: ProgramRecord) -> None:
        """Use the program that an earlier process of the run recorded."""
        self._record = record
        self._path = record.path

    def check(self) -> None:
        """Raise ModelNotFound if the program is not installed."""
        if not self._path:
            program = self.preset.judge.argv[0]
            hint = (
                self.preset.install
                or f"install {program}, or name another {self.account}"
            )
            where = " outside of the workspace" if self._workspaces else ""
            raise ModelNotFound(
                f"{self.account} {self.choice.name}: the program {program} was not found{where}",
                hint,
            )

    async def probe(self) -> str:
        """Ask one short question, to learn before any work whether the program is signed in and answers.

        Return a warning if it gives no answer. Raise AuthenticationFailed, ModelNotFound or RequestRejected.
        """
        await self.prepare()
        limit = min(_TRIAL_TIMEOUT, self._timeout)
        request = Request(
            [{"role": "user", "content": _TRIAL}], schema=_TRIAL_SCHEMA, timeout=limit
        )
        try:
            reply = await self.attempt(request)
        except ProviderFailure as failure:
            error = self.explained(failure)
            if failure.kind in TRANSIENT:
                return error.message
            raise error from failure
        finally:
            self.usage = self.usage + request.spent
        # What the program itself wrote meanwhile, such as settings in a newer form, is no change by the agent.
        self._record = self.record.model_copy(
            update={"files": await in_thread(self._files)}
        )
        return (
            ""
            if reply.text.strip()
            else f"{self.model} gave no answer of the wanted form to a trial question"
        )

    async def prepare(self) -> None:
        self.check()
        await in_thread(self._refuse_changes)

    async def send(self, request: Request, draft: Draft) -> None:
        rules, prompt = prompt_of(request.messages)
        with tempfile.TemporaryDirectory(
            prefix="goal-judge-", ignore_cleanup_errors=True
        ) as made:
            call = _Call(
                self.choice,
                self._path,
                Path(made),
                json.dumps(request.schema or {"type": "object"}),
                rules,
            )
            stdin = clean(
                prompt if call.takes_rules else f"{rules}\n\n{prompt}".strip()
            ).encode()
            argv = call.prepare()
            self._refuse_long(stdin, argv)
            output, errors = call.root / "output", call.root / "errors"
            launcher = ProcessLauncher(OUTPUT_LIMIT)
            try:
                completion = await launcher.launch(
                    argv,
                    cwd=call.folder,
                    env=self._environment(call),
                    output=output,
                    errors=errors,
                    stdin=stdin,
                )
            finally:
                launcher.close()
            data = output.read_bytes() if output.exists() else b""
            answer = await in_thread(read_answer, self.preset, data)
            draft.report = answer.usage
            if failure := failure_in(self.choice, answer, completion, tail_of(errors)):
                if answer.usage.uncounted_calls:
                    draft.report = None  # nothing shows that the provider was asked
                raise failure
            draft.add_text(answer.text)
            draft.finish_reason = "stop"

    def used(self, request: Request, draft: Draft) -> Usage:
        return draft.report or UNREPORTED

    def has_price(self) -> bool:
        return "cost_usd" in self.preset.judge.reports

    def explained(self, failure: ProviderFailure, retries: int = 0) -> ModelError:
        """Return the error for users."""
        said = shorten_failure(
            _redacted(failure.message, self.environ, self.preset.keys)
        )
        status = f" ({failure.status})" if failure.status else ""
        who = f"the {self.account} {self.model}"
        match failure.kind:
            case FailureKind.AUTHENTICATION:
                hint = (
                    self.preset.sign_in
                    or f"sign in to {self.choice.name}, or export its key"
                )
                return AuthenticationFailed(
                    f"{who} has no valid key or login{status}: {said}", hint
                )
            case FailureKind.MODEL:
                hint = (
                    self.preset.install
                    if not failure.status
                    else f"correct [{self.account}] model"
                )
                return ModelNotFound(
                    f"{who} cannot be used{status}: {said}", hint or "name another one"
                )
            case FailureKind.CONTEXT:
                hint = f"lower [{self.account}] max_tokens, or name another model"
                return ContextWindowExceeded(
                    f"the prompt is too long for {who}{status}: {said}", hint
                )
            case kind if kind in TRANSIENT:
                after = (
                    f" after {retries} {'retry' if retries == 1 else 'retries'}"
                    if retries
                    else ""
                )
                hint = "goal resume continues the run when the program answers again"
                known = failure.outage if isinstance(failure, ProgramFailure) else None
                outage = replace(
                    known or Outage("overload", str(kind)), was_retried=True
                )
                message = f"{who} did not answer{after}: {kind}{status}: {said}"
                return ProviderUnavailable(message, hint, outage=outage)
        hints = (
            hint
            for text, hint in self.preset.hints.items()
            if text.lower() in failure.message.lower()
        )
        return RequestRejected(
            f"{who} failed{status}: {said}",
            next(hints, f"goal agents {self.choice.name} tests it"),
        )

    def _refuse_long(self, stdin: bytes, argv: Sequence[str]) -> None:
        """Raise ContextWindowExceeded for a prompt that the program would cut or refuse."""
        if len(stdin) > self.preset.judge.longest or any(
            len(os.fsencode(word)) > LONGEST_WORD for word in argv
        ):
            size = max(len(stdin), *(len(os.fsencode(word)) for word in argv))
            message = f"the prompt for {self.model} has {size:,} bytes, more than the program reads"
            raise ContextWindowExceeded(
                message,
                f"lower [{self.account}] max_tokens, or name another {self.account}",
            )

    def _files(self) -> dict[str, str]:
        """Return the watched files with their digests, and the program, which may be a link, with its real path."""
        program = (
            {self._path: os.path.realpath(self._path)}
            if os.access(self._path, os.X_OK)
            else {}
        )
        return watched_files(self.preset, self.environ) | program

    def _refuse_changes(self) -> None:
        """Raise JudgeChanged if the program or one of its watched files is not as it was recorded."""
        if path := changed_file(self.record.files, self._files()):
            why = f"{path} was changed during the run, so {self.choice.name} cannot be the {self.account} any more"
            raise JudgeChanged(
                why, "restore the file and type goal resume, or start a new run"
            )

    def _environment(self, call: _Call) -> dict[str, str]:
        """Return the environment of the runner without keys but the program's own, and without folders of a workspace."""
        preset = self.preset
        own = {name: self.environ[name] for name in preset.keys if name in self.environ}
        env = child_environment(self.environ, extra=own | preset.env | call.variables)
        entries = [
            entry
            for entry in env.get("PATH", os.defpath).split(os.pathsep)
            if self._is_outside(entry)
        ]
        return env | {"PATH": os.pathsep.join(entries)}

    def _is_outside(self, entry: str) -> bool:
        place = Path(os.path.realpath(entry))
        return Path(entry).is_absolute() and not any(
            place.is_relative_to(root) for root in self._workspaces
        )


def program_path(
    preset: Preset, environ: Mapping[str, str], workspaces: Sequence[Path]
) -> str:
    """Return the path of the program, which does not lie in a workspace; empty if it is not found."""
    program = preset.judge.argv[0]
    roots = [Path(os.path.realpath(folder)) for folder in workspaces]
    if "/" not in program:
        path = program_outside(program, environ, workspaces)
        return _resolved(path) if path else ""
    path = Path(program).expanduser()
    real = Path(os.path.realpath(path))
    is_usable = (
        real.is_file()
        and os.access(real, os.X_OK)
        and not any(real.is_relative_to(root) for root in roots)
    )
    return _resolved(path) if is_usable and path.is_absolute() else ""


def _resolved(path: Path) -> str:
    """Return the real path of a program. If several links lead to one file, it goes by the name of the link, which stays."""
    real = os.path.realpath(path)
    if (
        path.is_symlink()
        and sum(os.path.realpath(entry) == real for entry in path.parent.iterdir()) > 1
    ):
        return str(path)
    return real


def _redacted(text: str, environ: Mapping[str, str], names: Sequence[str]) -> str:
    from goalrunner.records.redaction import Redactor

    return Redactor(environ, names=tuple(names)).text(text)


@dataclass(frozen=True)
class _Call:
    """One call: its command line, and the files that it needs, below `root`."""

    choice: ProgramChoice
    program: str
    root: Path
    schema: str
    rules: str

    @property
    def folder(self) -> Path:
        """Where the process runs."""
        return self.root / "work"

    @property
    def takes_rules(self) -> bool:
        """Whether the rules have a place of their own, so that they are not a part of the prompt."""
        judge = self.choice.preset.judge
        words = " ".join((*judge.argv, *judge.env.values(), *judge.files.values()))
        return "{system}" in words or "{system_file}" in words

    def prepare(self) -> tuple[str, ...]:
        """Write the files of the call; return its command line."""
        judge = self.choice.preset.judge
        self.folder.mkdir()
        (self.root / "schema.json").write_text(self.schema, encoding="utf-8")
        (self.root / "system.md").write_text(clean(self.rules), encoding="utf-8")
        for name, text in judge.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        words = [self.program]
        for word in judge.argv[1:]:
            words += self._model_words() if word == "{model}" else [self._filled(word)]
        return tuple(words)

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the call."""
        filled = {
            name: self._filled(value)
            for name, value in self.choice.preset.judge.env.items()
        }
        return {**filled, "PWD": str(self.folder)}

    def _model_words(self) -> list[str]:
        model = self.choice.model
        return (
            [word.replace("{name}", model) for word in self.choice.preset.model]
            if model
            else []
        )

    def _filled(self, word: str) -> str:
        values = {
            "schema": self.schema,
            "schema_file": str(self.root / "schema.json"),
            "system": clean(self.rules).replace("\0", "\ufffd"),
            "system_file": str(self.root / "system.md"),
        }
        return re.sub(
            r"\{(schema|schema_file|system|system_file)\}",
            lambda match: values[match[1]],
            word,
        )
