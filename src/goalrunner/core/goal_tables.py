"""The tables of a goal, each a record with the defaults of its keys."""

from __future__ import annotations

import shlex
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic.json_schema import SkipJsonSchema

from goalrunner.core import field_types as fields
from goalrunner.core.agent_preset import BudgetName, Protocol
from goalrunner.core.constructors import declares_fields
from goalrunner.core.errors import kind, nearest, quoted, quoted_list
from goalrunner.core.field_types import Frozen, InnerError, from_file
from goalrunner.core.labels import REVIEWABLE, begins_with
from goalrunner.core.runner_calls import why_nameless

ApprovalKind = Literal["complete", "shell", "write", "network", "checks"]
"""What is approved.

It is calling the goal complete, running a command, writing a file, or counting the
agent's versions of the checks. Older runs have "network" for commands that use it.
"""


# A key of an earlier version is an error that says what to write now.
def _current_kind(kind: object) -> object:
    if kind == "network":
        raise ValueError(
            'has no "network" any more; name commands in [approvals] commands = '
            '["curl *", "git push*"], '
            "and for no network at all write [workspace] network = false"
        )
    return kind


Requirable = Annotated[
    Literal["complete", "shell", "write"], BeforeValidator(_current_kind)
]
"""The kinds that a goal file may require an approval for."""

EMPTY: Mapping[str, Any] = {}
"""The default of tables in signatures: all keys have their defaults."""

DEFAULT_EXPIRY = 24 * 3600.0


def approvals_in_log(value: object) -> object:
    """Return the approvals in a log, which may be that of an older version."""
    if not isinstance(value, Mapping) or "network" not in value.get("require", ()):
        return value
    # It asked about commands that use the network; now it asks about every command.
    kinds = ["shell" if kind == "network" else kind for kind in value["require"]]
    return {**value, "require": tuple(dict.fromkeys(kinds))}


def _label_name(name: str) -> str:
    if any(begins_with(label, name) for label in REVIEWABLE):
        return name
    message = f"{quoted(name)} begins no label that can be reviewed; "
    if near := nearest(name, REVIEWABLE):
        message += f"did you mean {quoted(near)}?"
    else:
        message += f"the labels are {quoted_list(REVIEWABLE)}"
    raise ValueError(message)


LabelName = Annotated[fields.Text, AfterValidator(_label_name)]
"""The beginning of a label: `rests on`."""

CheckPolicy = Literal["judge", "person", "refuse"]
"""Who reviews changed checks; "refuse": the agent has to restore them."""


class Approvals(Frozen):
    """The actions and results that a person must approve.

    It also says who reviews changed checks.
    """

    require: tuple[Requirable, ...] = ()
    """Kinds of actions."""
    commands: tuple[fields.Text, ...] = ()
    """Patterns of command lines, `*` for anything."""
    checks: CheckPolicy | None = None
    """Who reviews changed checks; None: the judge if there is one that is independent,
    else a person."""
    labels: tuple[LabelName, ...] = ()
    """Beginnings of labels; results with them are reviewed like changed checks."""
    expires: fields.DurationLimit = DEFAULT_EXPIRY
    """Seconds; inf: never."""
    on_deny: Literal["stop", "continue"] = "stop"
    """"continue": the agent gets the reason."""


AGENT_MODEL = "agent"
"""What a judge's `model` is if it is the model of the agent.

It is a separate instance, with its own account.
"""

BUILTIN = "builtin"
"""The name of the built-in agent."""

DEFAULT_MAX_ITERATIONS = 10
DEFAULT_EXTERNAL_TIMEOUT = 4 * 3600.0
"""Seconds of active time, if an external agent has neither timeout nor budget."""
DEFAULT_MAX_STEPS = 100
DEFAULT_VALIDATOR_TIMEOUT = 600.0
DEFAULT_AUDIT_TOKENS = 12_000
DEFAULT_IDLE_TIMEOUT = 900.0
KEY_VARIABLE = "name of the environment variable that holds the key"


def _long_enough(seconds: float | None) -> float | None:
    if seconds is not None and seconds < 1:
        raise ValueError(
            f"{seconds:g} s is below 1 s, and no agent prints something all the time; "
            'write "15m", for example'
        )
    return seconds


IdleLimit = Annotated[fields.DurationLimit, AfterValidator(_long_enough)]


class Expectation(Frozen):
    """What makes a shell validator pass.

    That is an exit code, and a pattern in its output if one is given.
    """

    exit_code: Annotated[int, Field(ge=0, le=255, strict=True)] = 0
    output: fields.Pattern | None = None
    """Regular expression (re.MULTILINE) to find in the output."""


RunVariable = Literal[
    "GOAL_RUN_ID", "GOAL_ITERATION", "GOAL_OBJECTIVE", "GOAL_RESPONSE_FILE"
]
"""An environment variable that describes the run to validators whose command or script
names it."""


class ValidatorSpec(Frozen):
    """A check that the runner runs: a shell command or a Python callable.

    >>> from goalrunner import Goal, ValidatorSpec
    >>> tests = ValidatorSpec(run="pytest -q", timeout="10m", known_failures="baseline")
    >>> Goal(objective="Fix test_y.", validator=tests).validators[0].timeout
    600.0
    """

    name: fields.OptionalLine = ""
    """Name in reports; default: made from the command."""
    run: fields.Text | None = None
    """Command line, run through sh -c in the workspace."""
    python: fields.CallableName | None = None
    """package.module:function, run in a child process."""
    timeout: fields.DurationLimit = DEFAULT_VALIDATOR_TIMEOUT
    """Seconds; inf: no limit."""
    cwd: fields.InnerFolder = ""
    """Folder relative to the workspace."""
    env: fields.Environment = Field(default={})
    """Added to the environment."""
    pass_env: tuple[RunVariable, ...] = ()
    """Variables of the run that it gets in any case."""
    serial: fields.Flag = False
    """Never beside another validator."""
    hidden: fields.Flag = False
    """Runs once the others are green; the agent never sees its name or output."""
    retries: Annotated[int, Field(ge=0, le=100, strict=True)] | None = None
    """How often a red result is run again; green after red then counts as green. None:
    a third run decides if a validator was red and green on the same files; 0: it is red
    then."""
    tests: Literal["optional"] | None = None
    """"optional": its test runner may run no test, or skip all of them. None: that is
    red."""
    fixes: tuple[fields.Text, ...] = ()
    """Tests that must pass: tests/test_x.py::test_empty."""
    known_failures: Literal["baseline"] | None = None
    """"baseline": tests that failed before round 1 may go on failing."""
    expect: Expectation = Field(default_factory=Expectation)

    @declares_fields
    def __init__(
        self,
        *,
        run: str | None = None,
        python: str | None = None,
        name: str = "",
        timeout: float | str | None = DEFAULT_VALIDATOR_TIMEOUT,
        cwd: str = "",
        env: Mapping[str, str] = EMPTY,
        pass_env: Sequence[RunVariable] = (),
        serial: bool = False,
        hidden: bool = False,
        retries: int | None = None,
        tests: Literal["optional"] | None = None,
        fixes: Sequence[str] = (),
        known_failures: Literal["baseline"] | None = None,
        expect: Expectation | Mapping[str, Any] = EMPTY,
    ) -> None:
        """Make a validator of its fields."""

    @model_validator(mode="after")
    def _combined(self) -> ValidatorSpec:
        self._refuse_two_kinds()
        if self.python is not None:
            self._refuse_keys_of_run()
        if self.known_failures and self.expect != Expectation():
            raise InnerError(
                ("expect",),
                "cannot be combined with known_failures, with which tests decide; "
                "remove one of the two",
                key=True,
            )
        for key in ("known_failures", "fixes"):
            # With known failures, tests decide and not the exit code of the line.
            alone = key == "known_failures"
            why = (
                why_nameless(self.run or "", alone=alone) if getattr(self, key) else ""
            )
            if why:
                raise InnerError((key,), why, key=True)
        return self

    def _refuse_two_kinds(self) -> None:
        if self.run is None and self.python is None:
            message = (
                'a validator needs run = "command" or python = '
                '"package.module:function"'
            )
            raise InnerError((), message, whole=True)
        if self.run is not None and self.python is not None:
            message = (
                "a validator has run or python, not both; write two [[validators]]"
            )
            raise InnerError((), message, whole=True)

    def _refuse_keys_of_run(self) -> None:
        if self.expect != Expectation():
            message = (
                "is for run alone; the Python callable itself returns whether it passed"
            )
            raise InnerError(("expect",), message, key=True)
        for key in ("fixes", "known_failures", "tests"):
            if getattr(self, key):
                message = "is for run alone, whose test runner names its tests"
                raise InnerError((key,), message, key=True)


def _command(value: object, info: ValidationInfo) -> object:
    """Return a command as words.

    A line for sh -c is one word, so the only word of a list is quoted.
    """
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        return value
    first = words[0] if words else ""
    if not isinstance(first, str):
        # The type of the field reports it.
        return words
    if not first.strip() and (words or from_file(info)):
        raise ValueError(
            'is empty; write a command line, or a list of words: ["my-agent", "--json"]'
        )
    is_list_of_one = len(words) == 1 and not isinstance(value, str)
    if is_list_of_one and from_file(info):
        return [shlex.quote(first)]
    return words


Command = Annotated[
    tuple[fields.String, ...],
    BeforeValidator(_command, json_schema_input_type=str | tuple[str, ...]),
]


OF_ONE_PROGRAM = ("model", "command", "args", "env")
"""Keys of `[agent]` that are for the first of several agents alone."""

_NAMES_SCHEMA = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 1,
    "uniqueItems": True,
}


class AgentConfig(Frozen):
    """Settings of the agent that does the work."""

    use: Annotated[
        fields.Line, WithJsonSchema({"anyOf": [{"type": "string"}, _NAMES_SCHEMA]})
    ] = BUILTIN
    """"builtin"; "command" or "acp" with a command; a preset; or a list of them, in
    which each takes over from the last."""
    # No key of the goal file: it is made of a list in `use`.
    fallbacks: SkipJsonSchema[tuple[fields.Line, ...]] = ()
    """The names that follow the first one in `use`."""
    command: Command = ()
    """An external agent's command; a single word is run through sh -c."""
    args: tuple[fields.String, ...] = ()
    """Words added to the command of a preset."""
    protocol: Protocol | None = None
    """Protocol of a preset; None: its default."""
    model: fields.ModelName = ""
    """LiteLLM's naming, or scripted/<file>."""
    max_steps: fields.Count = DEFAULT_MAX_STEPS
    """Model calls in one round."""
    tools: (
        tuple[Literal["shell", "read_file", "write_file", "edit_file"], ...] | None
    ) = None
    """Of the built-in agent; None: all of them."""
    system_prompt: fields.Text | None = None
    """Replaces the built-in one."""
    params: fields.Parameters = Field(default={})
    """Passed on to the model: temperature, max_tokens, ..."""
    env: fields.Environment = Field(default={})
    """Added to the environment of the agent's commands."""
    turn_timeout: fields.DurationLimit = None
    """Seconds after which its turn is ended and the round is checked; inf: no limit."""
    idle_timeout: IdleLimit = DEFAULT_IDLE_TIMEOUT
    """Seconds without output, open tool call or work of its processes after which the
    turn is ended; inf: no limit."""
    api_base: fields.Address | None = None
    api_key_env: fields.KeyVariable | None = Field(
        default=None, description=KEY_VARIABLE
    )

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, data: object, info: ValidationInfo) -> object:
        """Split a list in `use` into the first agent and its fallbacks."""
        if not isinstance(data, Mapping):
            return data
        if from_file(info) and "fallbacks" in data:
            raise InnerError(
                ("fallbacks",), 'is no key; write use = ["claude", "codex"]', key=True
            )
        names = data.get("use")
        if not isinstance(names, list | tuple):
            return data
        if not names:
            raise InnerError(("use",), 'is empty; name an agent, such as "claude"')
        for index, name in enumerate(names):
            if not isinstance(name, str):
                message = f"must be the name of an agent, not {kind(name)}"
                raise InnerError(("use", index), message)
            if name in names[:index]:
                message = (
                    f"names {quoted(name)} twice: an agent cannot fail over to itself; "
                    "remove it"
                )
                raise InnerError(("use", index), message)
        return {**data, "use": names[0], "fallbacks": tuple(names[1:])}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all agents, in the order in which they take over."""
        return (self.use, *self.fallbacks)

    def alone(self, name: str) -> AgentConfig:
        """Return the settings of one of the agents.

        A fallback has none of those that are for the first one's program.
        """
        if name == self.use:
            return self.model_copy(update={"fallbacks": ()})
        changes: dict[str, Any] = {"use": name, "fallbacks": ()}
        for key in OF_ONE_PROGRAM:
            field = type(self).model_fields[key]
            changes[key] = field.get_default(call_default_factory=True)
        return self.model_copy(update=changes)

    @property
    def external(self) -> bool:
        """Whether the agent is an external program.

        Its actions are then known only from its reports.
        """
        return self.use != BUILTIN


class AnswersMessages(typing.Protocol):
    """A model of the calling program: `complete(messages)` returns its answer."""

    @property
    def complete(self) -> Callable[..., Any]:
        """Called with chat messages; returns a text, or an awaitable of it."""


class JudgeConfig(Frozen):
    """Settings of the judge: `JudgeConfig(model, system_prompt)`.

    (Source of these two: GoalLoop's JudgeConfig.)

    In Python, `model` may also be a model itself: an LLM, a function, or an object with
    `complete(messages) -> str`.

    >>> from goalrunner import JudgeConfig
    >>> JudgeConfig("openai/gpt-5-mini", minimum_score=0.8).model
    'openai/gpt-5-mini'
    """

    model: fields.ModelName = ""
    """LiteLLM's naming, an agent ("claude"), scripted/<file>, or "agent"; empty: no
    judge, or the default of `use`."""
    use: fields.OptionalLine = ""
    """An agent whose program judges; `model` is then its own naming."""
    system_prompt: fields.Text | None = None
    """Replaces the built-in one."""
    minimum_score: fields.Share = 0.0
    """Minimum score of a complete verdict."""
    require: Literal["any", "runner"] = "any"
    """"runner": reports of an agent are not evidence."""
    max_tokens: Annotated[int, Field(ge=2_000, le=10_000_000, strict=True)] = (
        DEFAULT_AUDIT_TOKENS
    )
    """Size of the prompt of an audit."""
    params: fields.Parameters = Field(default={})
    """Passed on to the model."""
    api_base: fields.Address | None = None
    api_key_env: fields.KeyVariable | None = Field(
        default=None, description=KEY_VARIABLE
    )

    # No field: the log cannot hold a model, only its name.
    _instance: Any = PrivateAttr(default=None)

    @declares_fields
    def __init__(
        self,
        model: str | Callable[..., Any] | AnswersMessages = "",
        system_prompt: str | None = None,
        *,
        use: str = "",
        minimum_score: float = 0.0,
        require: Literal["any", "runner"] = "any",
        max_tokens: int = DEFAULT_AUDIT_TOKENS,
        params: Mapping[str, Any] = EMPTY,
        api_base: str | None = None,
        api_key_env: str | None = None,
    ) -> None:
        """Make the settings of a judge of their fields."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_instance(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        model = data.get("model") if isinstance(data, Mapping) else None
        if not _is_model(model):
            return handler(data)
        config = handler({**data, "model": _name_of(model)})
        config._instance = model  # noqa: SLF001  of this class
        return config

    @property
    def words(self) -> str:
        """The name for people."""
        return f"{self.use} {self.model}".strip()

    @property
    def instance(self) -> Any:
        """The model itself, if it was given; None if `model` is only its name."""
        return self._instance


def _is_model(value: Any) -> bool:
    """Return whether a value is a model itself, rather than its name."""
    if isinstance(value, type):
        # A class is callable, but no model.
        return False
    return callable(value) or callable(getattr(value, "complete", None))


def _name_of(model: Any) -> str:
    name = getattr(model, "model", None)
    if isinstance(name, str):
        return name
    # A lambda is named <lambda>.
    own_name = getattr(model, "__name__", type(model).__name__)
    return f"custom/{own_name.strip('<>')}"


class Budget(Frozen):
    """What the run may spend on models, agent and judge together.

    >>> from goalrunner import Budget, Goal
    >>> goal = Goal(objective="x", budget=Budget(tokens=200_000, cost_usd=2.5))
    >>> goal.budget.limited
    ('tokens', 'cost_usd')
    """

    tokens: fields.CountLimit = None
    """inf: no limit."""
    cost_usd: fields.DollarLimit = None
    """US dollars; inf: no limit."""
    allow_unenforced: tuple[BudgetName, ...] = ()
    """Budgets that may count only what is known."""

    @declares_fields
    def __init__(
        self,
        *,
        tokens: float | None = None,
        cost_usd: float | None = None,
        allow_unenforced: Sequence[BudgetName] = (),
    ) -> None:
        """Make a budget of its fields."""

    @property
    def limited(self) -> tuple[BudgetName, ...]:
        """The budgets that are set, by name."""
        names: tuple[BudgetName, ...] = get_args(BudgetName)
        return tuple(name for name in names if getattr(self, name) is not None)

    @property
    def unenforced(self) -> tuple[BudgetName, ...]:
        """The budgets that are set, and may count only usage that is known."""
        return tuple(name for name in self.limited if name in self.allow_unenforced)


def _current_check(kind: object) -> object:
    if kind == "checkout":
        raise ValueError(
            'has no "checkout" any more; remove the key: with setup, validators run '
            "in an overlay without ignored files"
        )
    return kind


class WorkspaceConfig(Frozen):
    """Settings of the folder in which the agent works, and of the check environment."""

    path: fields.OptionalText = ""
    """Absolute after loading; empty: the project of the goal file, else the current
    folder."""
    protect: tuple[fields.Text, ...] = ()
    """Patterns of paths with original content in checks."""
    editable: tuple[fields.Text, ...] = ()
    """Patterns of paths that the agent may change, and no others."""
    allow: tuple[fields.Text, ...] = ()
    """Patterns of paths that may change although a rule protects them."""
    outputs: tuple[fields.Text, ...] = ()
    """Patterns of files that checks write into the workspace."""
    dependencies: tuple[fields.Text, ...] = ()
    """Patterns of ignored folders with installed dependencies."""
    setup: fields.Text | None = None
    """Command that installs what validators need; they then see no ignored files but
    those that it makes."""
    check: Annotated[
        Literal["overlay", "in-place"] | None, BeforeValidator(_current_check)
    ] = None
    """None: the strictest one that works here."""
    sandbox: Literal["auto", "bwrap", "none"] = "none"
    """For commands and validators; auto: if it works."""
    isolate: fields.Flag | Literal["clone"] = False
    """Whether a run works in a copy of the workspace; "clone": in a local clone, also
    where an overlay works."""
    network: fields.Flag = True
    """False: commands and validators reach no other machine."""

    @model_validator(mode="after")
    def _combined(self) -> WorkspaceConfig:
        if self.editable and self.protect:
            message = (
                "cannot be combined with editable, which protects everything that it "
                "does not name; remove one of the two"
            )
            raise InnerError(("protect",), message, key=True)
        return self


class RedactConfig(Frozen):
    """Secrets without a known form, and texts that only look like secrets."""

    extra: tuple[fields.Secret, ...] = ()
    """$NAME, a variable that holds one, or /pattern/."""
    allow: tuple[fields.Text, ...] = ()
    """Texts that are never replaced."""


class NotifyConfig(Frozen):
    """Notifications that a run has ended, or waits for a decision."""

    bell: fields.Flag = True
    """Bell and title of the terminal that the run is shown on."""
    command: fields.OptionalText = ""
    """Command line, run with GOAL_RUN_ID, GOAL_STATUS and GOAL_COMMANDS."""


class RecordsConfig(Frozen):
    """How long the records of runs in this workspace are kept; by default for ever."""

    keep: fields.Retention | None = None
    """When a run begins, older ones are removed: an age such as "90d", or "last 50"."""

    @property
    def seconds(self) -> float | None:
        """The age at which a run is removed; None if the number of runs decides."""
        return fields.parse_duration(self.keep) if self.keep is not None else None

    @property
    def newest(self) -> int | None:
        """How many of the newest runs are kept; None if their age decides."""
        return fields.parse_newest(self.keep) if self.keep is not None else None


class TelemetryConfig(Frozen):
    """Traces and metrics of runs for OpenTelemetry; by default none."""

    otlp: fields.Collector = ""
    """The collector, such as "http://localhost:4318"; "env": the variables OTEL_*."""
    content: fields.Flag = False
    """Whether objective, prompts, commands and outputs are sent as well."""


class MemoryConfig(Frozen):
    """What may be kept for later runs; by default nothing."""

    promote: tuple[Literal["event", "fact", "preference", "policy_reference"], ...] = ()
    """Kinds that may be kept."""
    recall: fields.Flag = False
    """Whether the first prompt contains promoted facts of this owner."""
