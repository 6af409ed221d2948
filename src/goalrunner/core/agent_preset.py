"""An external agent as data: how it is started, and where in its output its calls and its usage stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from goalrunner.core.base import Frozen
from goalrunner.core.field_types import (
    Environment,
    InnerError,
    KeyVariable,
    Line,
    OptionalLine,
    OptionalText,
    String,
    Text,
    from_file,
)
from goalrunner.core.wording import TYPING_ERROR, braced, nearest, quoted

Protocol = Literal["command", "acp"]
"""How an external agent is driven: one process a round, or one a run that speaks the Agent Client Protocol."""

BudgetName = Literal["tokens", "cost_usd"]
"""A budget by its key in the goal file."""

Scope = Literal["turn", "session"]
"""What a number is of that an agent reports: one turn of it, or all of the session so far."""


PLACEHOLDERS = ("prompt", "prompt_file", "session", "workspace", "model", "args")
"""What the words of a preset's command may name in braces."""

_WHOLE = ("model", "args")
"""Of these: what stands for any number of words, and so is a word of its own."""


def _command(words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if (not words and from_file(info)) or (words and not words[0].strip()):
        raise ValueError('is empty; write a list of words, the program first: ["my-agent", "--json"]')
    for index, word in enumerate(words):
        for name in re.findall(r"\{([A-Za-z_]+)\}", word):
            if why := _wrong_placeholder(name, word, is_line=len(words) == 1):
                raise InnerError((index,), why)
    return words


def _wrong_placeholder(name: str, word: str, *, is_line: bool) -> str:
    """Return what is wrong with a name in braces; empty if it is a placeholder, or plainly something else."""
    is_word = word == f"{{{name}}}"
    if name in _WHOLE and not is_word and not is_line:
        return f"{quoted(word)}: {{{name}}} stands for several words; write it as a word of its own"
    if name in PLACEHOLDERS or not (is_word or nearest(name, PLACEHOLDERS, TYPING_ERROR)):
        return ""
    near = nearest(name, PLACEHOLDERS)
    guess = f"; did you mean {{{near}}}?" if near else ";"
    return f"names {{{name}}}, which does not exist{guess} valid: {braced(PLACEHOLDERS)}"


def _with_name(words: tuple[str, ...]) -> tuple[str, ...]:
    if words and not any("{name}" in word for word in words):
        raise ValueError("needs {name} in one of its words")
    return words


def _home_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path[0] in "/~" or ".." in parts or not path.isprintable():
        raise ValueError(f'{quoted(path)} must be a path below HOME, such as ".my-agent/login.json"')
    return path


Command = Annotated[tuple[String, ...], AfterValidator(_command)]
HomePath = Annotated[Line, AfterValidator(_home_path)]


def _lists(fields: object) -> object:
    """Return the fields of a rule, each with a list of paths."""
    if not isinstance(fields, dict):
        return fields
    return {name: [paths] if isinstance(paths, str) else paths for name, paths in fields.items()}


_Paths = Annotated[
    dict[str, tuple[str, ...]], BeforeValidator(_lists, json_schema_input_type=dict[str, str | tuple[str, ...]])
]


class StreamRule(Frozen):
    """Where in one line of an agent's output something stands. Paths are keys joined by dots: "message.content".

    A field that names several paths takes the first that is there. What is found that is no string is written as JSON.
    """

    kind: Literal["session", "text", "delta", "call", "result", "usage", "error"] = Field(
        description="session id; a whole text; a piece of one; a tool call; its result; usage; the agent's own failure"
    )
    when: dict[str, str | int | bool | tuple[str, ...]] = Field(
        default_factory=dict, description="path -> the value it must have (or one of several) for the rule to hold"
    )
    each: str = Field(default="", description="path of a list, each item of which is looked at instead of the line")
    where: dict[str, str | int | bool | tuple[str, ...]] = Field(
        default_factory=dict, description="as `when`, of the item"
    )
    fields: _Paths = Field(
        default_factory=dict,
        description="name -> paths. session: id. text, delta: text. call: id, tool, command. result: id, output, exit_code,"
        " failed, tool, command. usage: input, output, cached, cost. error: message. `cached` are tokens that `input`"
        " does not hold: all its paths are added to it; cost is in US dollars",
    )
    cumulative: bool = Field(default=False, description="usage: totals of the session, not of this line")
    ends: bool = Field(default=False, description="error: the round is over, whatever the agent would still try")


class Preset(Frozen):
    """How one agent is driven. In argv: `{prompt}`, `{prompt_file}`, `{session}`, `{workspace}`; the whole words `{model}`
    and `{args}` become the words of `model` and of `[agent] args`, or nothing. Without `{prompt}` or `{prompt_file}` the
    prompt is given on stdin.
    """

    argv: Command = Field(default=(), description="command of a first round")
    resume: Command = Field(default=(), description="command of a later one; empty: it cannot resume")
    acp: Command = Field(default=(), description="command that speaks ACP on stdin and stdout; empty: none")
    acp_reports: dict[BudgetName, Scope] = Field(
        default_factory=dict,
        description="what it reports of each turn where it speaks ACP, and of what: budgets of these can be kept to then",
    )
    model: Annotated[tuple[String, ...], AfterValidator(_with_name)] = Field(
        default=(), description='words that choose a model: ["--model", "{name}"]'
    )
    env: Environment = Field(default_factory=dict, description="added to its environment")
    asking: Environment = Field(
        default_factory=dict,
        description="added to it where a person decides on what it does: with it, an agent that speaks ACP asks first",
    )
    jailed_env: Environment = Field(
        default_factory=dict, description="added to it in a jail, and only there: what says that it is in one"
    )
    helpers: tuple[Line, ...] = Field(
        default=(),
        description="names of processes that it starts for itself where it speaks ACP, and needs in later rounds: a terminal."
        " They are left alone at the end of a round, and their children; not those below",
    )
    keys: tuple[KeyVariable, ...] = Field(
        default=(), description="variables that hold its key: given on to it, never to its commands"
    )
    login: tuple[HomePath, ...] = Field(
        default=(), description="files below HOME, any of which shows that it is logged in"
    )
    home: tuple[HomePath, ...] = Field(
        default=(), description="paths below HOME that it needs in a jail, its login among them"
    )
    version: Command = Field(default=(), description="command that prints its version")
    install: OptionalLine = Field(default="", description="what to type where it is not there")
    acp_install: OptionalLine = Field(
        default="", description="what to type where the program that speaks ACP is not there; empty: the same"
    )
    sign_in: OptionalLine = Field(default="", description="what to type where it has neither key nor login")
    denied: tuple[Text, ...] = Field(
        default=(),
        description="texts, without regard to case, by which its own failure is known as a wrong or missing key",
    )
    hints: dict[Text, Line] = Field(
        default_factory=dict,
        description="text of a failure of its own, without regard to case -> what to type next",
    )
    stream: Literal["json", "text"] = Field(default="text", description="lines of JSON, or words alone")
    session_after: OptionalText = Field(
        default="", description="words at the start of a line that is no JSON, after which the session id stands"
    )
    rules: tuple[StreamRule, ...] = ()

    @model_validator(mode="after")
    def _combined(self, info: ValidationInfo) -> Preset:
        for key, why in self._conflicts() if from_file(info) else ():
            raise InnerError((key,) if key else (), why, key=True)
        return self

    def _conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield keys that do not fit the others, with what to do about it."""
        if not self.argv and not self.acp:
            yield "", "has no command; write argv = [...], or acp = [...] if it speaks ACP"
        if self.resume and not self.argv:
            yield "resume", "is the command of a later round; write argv = [...], the one of the first"
        for key, words in (("argv", self.argv), ("acp", self.acp)):
            if any("{session}" in word for word in words):
                yield key, "begins a session and cannot name one; {session} is for resume"
        if self.acp_reports and not self.acp:
            yield "acp_reports", "is for an agent that speaks ACP; write acp = [...], its command"
        if self.model and not any("{model}" in word for word in (*self.argv, *self.resume, *self.acp)):
            yield "model", "is never used; write {model} as a word of argv, resume or acp"
        if self.rules and self.stream == "text":
            yield "rules", 'is for lines of JSON; write stream = "json", or remove it'
        if self.session_after and self.stream == "text":
            yield "session_after", 'is for a line between lines of JSON; write stream = "json"'
        finds_session = self.session_after or any(rule.kind == "session" for rule in self.rules)
        if any("{session}" in word for word in self.resume) and not finds_session:
            yield "resume", 'names {session}, which no rule finds; add one of kind "session", or session_after = "..."'

    def installing(self, protocol: Protocol) -> str:
        """What to type where the program of this protocol is not there; may be empty."""
        return (self.acp_install if protocol == "acp" else "") or self.install

    def reports_by(self, protocol: Protocol) -> frozenset[BudgetName]:
        """The budgets that can be kept to when it is driven so."""
        return frozenset(self.acp_reports) if protocol == "acp" else self.reports

    @property
    def reports(self) -> frozenset[BudgetName]:
        """The budgets that its own report of usage can keep to."""
        return self._told(rule for rule in self.rules if rule.kind == "usage")

    @property
    def totals(self) -> frozenset[BudgetName]:
        """Those of them that it reports as totals of the session."""
        return self._told(rule for rule in self.rules if rule.kind == "usage" and rule.cumulative)

    @staticmethod
    def _told(rules: Iterable[StreamRule]) -> frozenset[BudgetName]:
        names = {name for rule in rules for name in rule.fields}
        found: set[BudgetName] = set()
        if names & {"input", "output"}:
            found.add("tokens")
        if "cost" in names:
            found.add("cost_usd")
        return frozenset(found)
