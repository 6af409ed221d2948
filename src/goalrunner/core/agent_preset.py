"""An external agent as data: how it is started, what it needs, and what it reports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from goalrunner.core import field_types as fields
from goalrunner.core.errors import quoted
from goalrunner.core.field_types import Frozen, InnerError, braced, from_file

Protocol = Literal["command", "acp"]
"""How an external agent is driven: one process per round, or one per run that speaks
the Agent Client Protocol."""

BudgetName = Literal["tokens", "cost_usd"]
"""A budget by its key in the goal file."""

Scope = Literal["turn", "session"]
"""What a reported number covers: one turn, or the session so far."""

ExitMeaning = Literal["limit", "overload", "turns", "sign_in"]
"""What an exit code of an agent's program means: a usage or rate limit, a failure of
the provider that passes, a limit of turns, or no valid key or login."""

PLACEHOLDERS = ("prompt", "prompt_file", "session", "workspace", "model", "args")
"""Names that the words of a command may contain in braces."""

JUDGE_PLACEHOLDERS = ("schema", "schema_file", "system", "system_file", "model")
"""Names that the words of the command of a judge may contain in braces."""


_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")


def _command(words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return _checked_words(words, info, PLACEHOLDERS)


def _judge_command(words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if len(words) == 1 and " " in words[0].strip():
        raise ValueError(
            'must be a list of words, the program first: ["my-agent", "--json"]'
        )
    return _checked_words(words, info, JUDGE_PLACEHOLDERS)


_EMPTY = 'is empty; write a list of words, the program first: ["my-agent", "--json"]'


def _checked_words(
    words: tuple[str, ...], info: ValidationInfo, placeholders: tuple[str, ...]
) -> tuple[str, ...]:
    if words and not words[0].strip():
        raise ValueError(_EMPTY)
    if not words and from_file(info):
        raise ValueError(_EMPTY)
    # A command of one word is a line for sh -c, in which both may be parts.
    of_several_words = ("{model}", "{args}") if len(words) > 1 else ()
    for index, word in enumerate(words):
        name = _PLACEHOLDER.fullmatch(word)
        if name is not None and name[1] not in placeholders:
            raise InnerError(
                (index,),
                f"names {word}, which does not exist; valid: {braced(placeholders)}",
            )
        for placeholder in of_several_words:
            if placeholder in word and placeholder != word:
                raise InnerError(
                    (index,),
                    f"{quoted(word)}: {placeholder} stands for several words; "
                    "write it as a word of its own",
                )
    return words


def _with_name(words: tuple[str, ...]) -> tuple[str, ...]:
    if words and not any("{name}" in word for word in words):
        raise ValueError("needs {name} in one of its words")
    return words


def _home_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    # A path outside of HOME would give a sandbox more than the agent's own files.
    if not parts or path[0] in "/~" or ".." in parts or not path.isprintable():
        raise ValueError(
            f'{quoted(path)} must be a path below HOME, such as ".my-agent/login.json"'
        )
    return path


Command = Annotated[tuple[fields.String, ...], AfterValidator(_command)]
HomePath = Annotated[fields.Line, AfterValidator(_home_path)]


ExitCodeNumber = Annotated[int, Field(ge=1, le=255)]


TEXT = "text"
"""The output format in which all output is the answer."""


class JudgeCommand(Frozen):
    """How an agent's program answers one question as a judge.

    It is a new process without tools, in an empty folder, with the prompt on stdin. In
    the command, `{schema}` and `{system}` are replaced by the JSON Schema of the answer
    and the rules of the judge, `{schema_file}` and `{system_file}` by files with them,
    and the word `{model}` by the words of `model`. Without `{system}` or
    `{system_file}`, the rules are the beginning of the prompt.
    """

    argv: Annotated[tuple[fields.String, ...], AfterValidator(_judge_command)] = ()
    """Command; empty: it cannot be a judge."""
    answer: fields.OptionalLine = ""
    """Dotted key of the structured answer in its output; empty: its last message is the
    answer."""
    reports: tuple[BudgetName, ...] = ()
    """Usage that its output reports."""
    tools: fields.Flag = False
    """Whether it keeps some of its tools."""
    longest: fields.Count = 1_000_000
    """Bytes of the longest prompt that it reads."""
    env: fields.Environment = Field(default={})
    """Variables that are added to its environment."""
    files: dict[fields.InnerFolder, fields.String] = Field(default={})
    """Files in its folder, by path."""
    watched: tuple[HomePath, ...] = ()
    """Paths below HOME with its settings, memory, hooks and plugins; if one changes
    during a run, it judges no more."""
    folders: dict[fields.KeyVariable, HomePath] = Field(default={})
    """Variables that name a folder in place of the one at this path below HOME."""
    status: fields.OptionalLine = ""
    """Dotted key of the HTTP status of a failure in its output."""
    unfit: tuple[fields.Text, ...] = ()
    """Texts of failures that mean an answer of another form."""


class Preset(Frozen):
    """How one agent is started.

    In commands, `{prompt}`, `{prompt_file}`, `{session}` and `{workspace}` are replaced
    by their values, and the words `{model}` and `{args}` by the words of `model` and of
    `[agent] args`. Without `{prompt}` or `{prompt_file}`, the prompt is written to
    stdin.
    """

    argv: Command = ()
    """Command of the first round."""
    resume: Command = ()
    """Command of later rounds; empty: it cannot resume."""
    stream: fields.Line = TEXT
    """"text": all output is the answer; else the agent whose parser reads it."""
    reports: dict[BudgetName, Scope] = Field(default={})
    """Usage that its output reports."""
    acp: Command = ()
    """Command that speaks ACP on stdin and stdout."""
    acp_reports: dict[BudgetName, Scope] = Field(default={})
    """Usage that it reports when it speaks ACP."""
    model: Annotated[tuple[fields.String, ...], AfterValidator(_with_name)] = ()
    """Words for a model: ["--model", "{name}"]."""
    unchecked: tuple[fields.Line, ...] = ()
    """Words of its command that turn its own permission checks off."""
    env: fields.Environment = Field(default={})
    """Variables that are added to its environment."""
    asking: fields.Environment = Field(default={})
    """Variables that make it ask first, added when a person decides."""
    sandbox_env: fields.Environment = Field(default={})
    """Variables that are added in a sandbox only."""
    helpers: tuple[fields.Line, ...] = ()
    """Its processes that keep running between rounds with ACP."""
    keys: tuple[fields.KeyVariable, ...] = ()
    """Variables with its keys; its commands do not get them."""
    login: tuple[HomePath, ...] = ()
    """Files below HOME; any of them shows that it is signed in."""
    home: tuple[HomePath, ...] = ()
    """Paths below HOME that it needs in a sandbox."""
    version: Command = ()
    """Command that prints its version."""
    install: fields.OptionalLine = ""
    """Command that installs it."""
    acp_install: fields.OptionalLine = ""
    """The same for its ACP program, if that is another one."""
    sign_in: fields.OptionalLine = ""
    """What to type if it has neither key nor login."""
    denied: tuple[fields.Text, ...] = ()
    """Texts of failures that mean a wrong or missing key."""
    exit_codes: dict[ExitCodeNumber, ExitMeaning] = Field(default={})
    """Exit codes that say why it ended: { 75 = "limit" }; also "overload", "turns" (its
    own limit) and "sign_in"."""
    hints: dict[fields.Text, fields.Line] = Field(default={})
    """Text of a failure -> what to type next; case is ignored."""
    judge: JudgeCommand = Field(default_factory=JudgeCommand)
    """How its program is a judge."""

    @model_validator(mode="after")
    def _combined(self, info: ValidationInfo) -> Preset:
        for key, why in self._conflicts() if from_file(info) else ():
            raise InnerError((key,) if key else (), why, key=True)
        return self

    def _conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield keys that do not fit the others, with what to do about it."""
        if not self.argv and not self.acp:
            yield "", _NO_COMMAND
        for key, words in (("argv", self.argv), ("acp", self.acp)):
            if _contains(words, "{session}"):
                yield key, _NO_SESSION_YET
        commands = (*self.argv, *self.resume, *self.acp, *self.judge.argv)
        if self.model and not _contains(commands, "{model}"):
            yield "model", _MODEL_UNUSED
        # Only the parser of an agent's output reads usage and sessions.
        has_parser = self.stream != TEXT
        if self.reports and not (self.argv and has_parser):
            yield "reports", _NO_USAGE
        if _contains(self.resume, "{session}") and not has_parser:
            yield "resume", _NO_SESSION

    def installing(self, protocol: Protocol) -> str:
        """Return the command that installs the program of a protocol; may be empty."""
        if protocol == "acp" and self.acp_install:
            return self.acp_install
        return self.install

    def reports_by(self, protocol: Protocol) -> frozenset[BudgetName]:
        """Return the budgets that can be enforced with this protocol."""
        return frozenset(self.acp_reports if protocol == "acp" else self.reports)

    @property
    def totals(self) -> frozenset[BudgetName]:
        """Return the budgets that its output reports as totals of the session."""
        scopes = self.reports.items()
        return frozenset(name for name, scope in scopes if scope == "session")


_NO_COMMAND = "has no command; write argv = [...], or acp = [...] if it speaks ACP"
_NO_SESSION_YET = "begins a session and cannot name one; {session} is for resume"
_MODEL_UNUSED = "is never used; write {model} as a word of argv, resume or acp"
_NO_USAGE = 'needs argv and stream = "NAME", the agent whose parser reads the usage'
_NO_SESSION = (
    "names {session}, which text output does not contain; "
    'write stream = "NAME", as for reports'
)


def _contains(words: tuple[str, ...], placeholder: str) -> bool:
    return any(placeholder in word for word in words)
