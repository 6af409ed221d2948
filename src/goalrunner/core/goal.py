"""The goal: what done means, which agent and judge work on it, and its limits.

Reads no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler

from goalrunner.core import field_types as fields
from goalrunner.core import goal_tables as tables
from goalrunner.core.agent_preset import Preset
from goalrunner.core.constructors import declares_fields
from goalrunner.core.critic import CriticConfig
from goalrunner.core.errors import quoted
from goalrunner.core.events import Account
from goalrunner.core.field_types import Frozen, InnerError, from_file

if TYPE_CHECKING:
    from goalrunner.core.goal_tables import (
        AgentConfig,
        Approvals,
        Budget,
        JudgeConfig,
        MemoryConfig,
        NotifyConfig,
        RecordsConfig,
        RedactConfig,
        TelemetryConfig,
        ValidatorSpec,
        WorkspaceConfig,
    )
    from goalrunner.core.ports import Validator

    Check = str | ValidatorSpec | Validator | Callable[..., Any] | Mapping[str, Any]
    Checks = Check | Iterable[Check]

SHORT_TABLES = {"agent": "use", "judge": "model", "critic": "model"}
"""Tables that may be written as one string, and the key which that string stands
for."""

SHORT_KEYS: dict[str, tuple[str, ...]] = {
    "model": ("agent", "model"),
    "validator": ("validators",),
}
"""Short keys, and the path of the key that each stands for."""

RESERVED_AGENTS = (tables.BUILTIN, "command", "acp")
"""Agents that have no preset."""


def short_form_conflicts(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each short key that stands beside its long form, with what to do."""
    agent = table.get("agent")
    if "model" in table and isinstance(agent, Mapping) and "model" in agent:
        message = (
            '"model" is the short form of model in [agent], which is given as well; '
            "remove one of the two"
        )
        yield "model", message
    if "validator" in table and "validators" in table:
        message = (
            '"validator" is the short form of [[validators]], which are given as well; '
            "write it as [[validators]] with run, or remove the others"
        )
        yield "validator", message


def validator_tables(value: object) -> object:
    """Return `validator = "command"`, or a list of commands, in the long form.

    Any other value is returned as it is.
    """
    commands = [value] if isinstance(value, str) else value
    if not isinstance(commands, list | tuple):
        return value
    return [{"run": command} for command in commands]


def is_validator(value: object) -> bool:
    """Return whether a value is a Validator: it has a name, and validates."""
    has_members = hasattr(value, "validate") and hasattr(value, "name")
    return has_members and not isinstance(value, type)


def _is_callable_check(value: object) -> bool:
    # A class is callable, and a ValidatorSpec has a name and `validate` of pydantic.
    if isinstance(value, type | tables.ValidatorSpec):
        return False
    return callable(value) or is_validator(value)


def _without_callables(value: object) -> tuple[object, tuple[Any, ...]]:
    """Return the validators of a program in the long form, and its callables."""
    is_one = _is_callable_check(value)
    if isinstance(value, tables.ValidatorSpec | Mapping | str) or is_one:
        checks: Sequence[object] = [value]
    elif isinstance(value, Iterable):
        checks = list(value)
    else:
        # The type of the field reports it.
        return value, ()
    tables_and_specs: list[object] = []
    callables: list[object] = []
    for check in checks:
        if _is_callable_check(check):
            callables.append(check)
        elif isinstance(check, str):
            tables_and_specs.append({"run": check})
        else:
            tables_and_specs.append(check)
    return tables_and_specs, tuple(callables)


def _short(key: str, accepted: Any) -> BeforeValidator:
    """Return the validator of a table that may be written as one string.

    The string is the value of `key`.
    """

    def expand(value: object, info: ValidationInfo) -> object:
        is_list_of_agents = key == "use" and isinstance(value, list | tuple)
        is_short = isinstance(value, str) or is_list_of_agents
        table = {key: value} if is_short else value
        if from_file(info) and isinstance(table, Mapping) and table.get(key) == "":
            raise InnerError((key,), "is empty; write something, or remove it")
        return table

    return BeforeValidator(expand, json_schema_input_type=accepted)


def _named(
    validators: tuple[tables.ValidatorSpec, ...], info: ValidationInfo
) -> tuple[tables.ValidatorSpec, ...]:
    """Return the validators, each with a unique name: "pytest", "ruff", "pytest-2"."""
    names: set[str] = set()
    for index, validator in enumerate(validators):
        if validator.name in names and from_file(info):
            raise InnerError(
                (index, "name"),
                f"{quoted(validator.name)} is the name of another validator; "
                "choose a different one",
            )
        if validator.name:
            names.add(validator.name)
    named = []
    # Names that the goal gives come before those that are made here.
    for validator in validators:
        if not validator.name:
            name = _free_name(validator, names)
            names.add(name)
            validator = validator.model_copy(update={"name": name})  # noqa: PLW2901
        named.append(validator)
    return tuple(named)


def _free_name(validator: tables.ValidatorSpec, names: set[str]) -> str:
    """Return the name of what a validator calls, with a number if it is in use."""
    # Imported here: only a goal with unnamed validators needs the reader of lines.
    from goalrunner.core.shell_programs import label

    if validator.run is not None:
        called = label(validator.run)
    else:
        called = str(validator.python).rpartition(":")[2]
    base = re.sub(r"[^\w.-]+", "-", called)[:30].strip("-.") or "check"
    name, number = base, 1
    while name in names:
        number += 1
        name = f"{base}-{number}"
    return name


def _agent_name(name: str) -> str:
    if name in RESERVED_AGENTS:
        raise ValueError("is built in and cannot be redefined; choose another name")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(
            "is not a valid name of an agent; write letters, digits, dots, dashes and "
            "underscores"
        )
    return name


# These words give only a warning: they cannot show whether an objective can be checked.
_ACTIVITY = re.compile(
    r"(?:please )?(work(?:ing)? on|look (?:in)?(?:to|at)|improve|enhance"
    r"|help(?: (?:me|us))?(?: with)?|investigate|explore|research|continue"
    r"|keep (?:on )?\w+ing|think about|clean up|tidy(?: up)?|polish|experiment with"
    r"|make progress|optimi[sz]e|analy[sz]e|deal with|take care of|spend \w+|refactor"
    r"|modernize|try(?: to| out)?)\b",
    re.IGNORECASE,
)
_RESULT = re.compile(
    r"[\d`'\"]|\b(?:so that|until|unless|without|pass(?:es|ing)?|green"
    r"|returns?|raises?|prints?|no longer|fails?|must|should|every"
    r"|all|each|only|at (?:most|least)|below|above|under|less|fewer|more"
    r"|from \S+ (?:in)?to|is|are|has|have|exists?|contains?"
    r"|works?)\b",
    re.IGNORECASE,
)


def activity_warning(goal: Goal) -> str | None:
    """Return a warning about an objective that cannot be checked; else None.

    Such an objective begins with an activity and names no result. (Source: the
    Goals-and-State document, which calls for objectives that can be checked.)
    """
    activity = _ACTIVITY.match(goal.objective.strip())
    if activity is None or goal.success_criteria:
        return None
    if _RESULT.search(goal.objective, activity.end()):
        return None
    return (
        f'the objective begins with an activity ("{activity[1]}") and names no result '
        "that can be checked; write what is true at the end, such as \"parse('') "
        'returns an empty Document", or list success_criteria'
    )


def _objective(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; write something")
    return text


def _add_short_keys(schema: dict[str, Any]) -> None:
    properties = schema["properties"]
    properties["model"] = {
        "type": "string",
        "description": "short for model in [agent]",
    }
    properties["validator"] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "short for one [[validators]] with run for each command",
    }


Objective = Annotated[fields.String, AfterValidator(_objective), Field(min_length=1)]
_AgentName = Annotated[str, AfterValidator(_agent_name)]
_Agent = Annotated[
    tables.AgentConfig, _short("use", str | list[str] | tables.AgentConfig)
]
_Judge = Annotated[tables.JudgeConfig, _short("model", str | tables.JudgeConfig)]
_Critic = Annotated[CriticConfig, _short("model", str | CriticConfig)]
ModelTable = tables.AgentConfig | tables.JudgeConfig | CriticConfig


class Goal(Frozen):
    """The content of a goal file, with all defaults filled in.

    `timeout` and `wait` are seconds, or texts such as "30m"; None or inf is no limit.
    `validator` and `validators` are shell commands, ValidatorSpecs and callables, one
    or any number. `judge`, `critic` and `agent` may be the name of a model or agent, or
    the table of a goal file. Raise pydantic's ValidationError for an unknown or invalid
    field; it shows the value unless that may be a secret.

    >>> from goalrunner import Goal
    >>> def short(response):
    ...     return len(response["content"][0]["text"]) < 400
    >>> goal = Goal(
    ...     objective="Explain rainbows in README.md.",
    ...     validators=[short, "test -s README.md"],
    ...     judge="openai/gpt-5-mini",
    ...     timeout="30m",
    ... )
    >>> goal.timeout, goal.max_iterations
    (1800.0, 10)
    """

    model_config = ConfigDict(json_schema_extra=_add_short_keys)

    objective: Objective
    """What to do, as the agent and the judge read it."""
    success_criteria: tuple[fields.Text, ...] = ()
    """Observable requirements; empty: the judge derives them."""
    constraints: tuple[fields.Text, ...] = ()
    """For agent and judge; if one is broken, the goal is not met."""
    parent: fields.OptionalLine = ""
    """Run that this goal is a part of; its constraints apply as well."""
    after: tuple[fields.Text, ...] = ()
    """In a batch: goal files that must be complete before this one begins."""
    owner: fields.String = ""
    risk_class: Literal["low", "medium", "high", "critical"] = "low"
    deliverable: Literal["workspace", "response"] = "workspace"
    preserve_context: fields.Flag = True
    """False: each retry sees original input and latest feedback."""
    resume_prompt: fields.Template | None = None
    """Retry message with {feedback} {iteration} {missing} {objective}."""
    baseline: Literal["any", "complete", "red"] = "any"
    """If every check passes at the start: "complete" ends the run, "red" refuses it."""
    stall_rounds: fields.CountLimit = 3
    """Equal rounds in a row that count as a stall; inf: never."""
    max_iterations: fields.CountLimit = tables.DEFAULT_MAX_ITERATIONS
    """inf: no limit."""
    timeout: fields.DurationLimit = None
    """Seconds of active time; inf: no limit. Default with an external agent and no
    budget: 4 hours."""
    wait: fields.WaitLimit = Field(default_factory=float)  # the schema names no default
    """Longest sum of waits for limits to reset; default: 6 h with `goal run`, 0 in
    Python; inf: no limit."""
    agent: _Agent = Field(default_factory=tables.AgentConfig)
    judge: _Judge = Field(default_factory=tables.JudgeConfig)
    critic: _Critic = Field(default_factory=CriticConfig)
    budget: tables.Budget = Field(default_factory=tables.Budget)
    workspace: tables.WorkspaceConfig = Field(default_factory=tables.WorkspaceConfig)
    approvals: tables.Approvals = Field(default_factory=tables.Approvals)
    redact: tables.RedactConfig = Field(default_factory=tables.RedactConfig)
    records: tables.RecordsConfig = Field(default_factory=tables.RecordsConfig)
    memory: tables.MemoryConfig = Field(default_factory=tables.MemoryConfig)
    notify: tables.NotifyConfig = Field(default_factory=tables.NotifyConfig)
    telemetry: tables.TelemetryConfig = Field(default_factory=tables.TelemetryConfig)
    validators: Annotated[tuple[tables.ValidatorSpec, ...], AfterValidator(_named)] = ()
    agents: dict[_AgentName, Preset] = Field(default={})
    """Presets of the user's own, by name."""

    @declares_fields
    def __init__(
        self,
        *,
        objective: str,
        success_criteria: Sequence[str] = (),
        constraints: Sequence[str] = (),
        validators: Checks = (),
        validator: Checks = (),
        judge: str | JudgeConfig | Mapping[str, Any] = tables.EMPTY,
        critic: str | CriticConfig | Mapping[str, Any] = tables.EMPTY,
        agent: str | Sequence[str] | AgentConfig | Mapping[str, Any] = tables.EMPTY,
        model: str = "",
        workspace: WorkspaceConfig | Mapping[str, Any] = tables.EMPTY,
        max_iterations: float | None = tables.DEFAULT_MAX_ITERATIONS,
        timeout: float | str | None = None,
        wait: float | str | None = 0.0,
        budget: Budget | Mapping[str, Any] = tables.EMPTY,
        deliverable: Literal["workspace", "response"] = "workspace",
        preserve_context: bool = True,
        resume_prompt: str | None = None,
        baseline: Literal["any", "complete", "red"] = "any",
        stall_rounds: float | None = 3,
        approvals: Approvals | Mapping[str, Any] = tables.EMPTY,
        risk_class: Literal["low", "medium", "high", "critical"] = "low",
        redact: RedactConfig | Mapping[str, Any] = tables.EMPTY,
        records: RecordsConfig | Mapping[str, Any] = tables.EMPTY,
        memory: MemoryConfig | Mapping[str, Any] = tables.EMPTY,
        notify: NotifyConfig | Mapping[str, Any] = tables.EMPTY,
        telemetry: TelemetryConfig | Mapping[str, Any] = tables.EMPTY,
        parent: str = "",
        after: Sequence[str] = (),
        owner: str = "",
        agents: Mapping[str, Any] = tables.EMPTY,
    ) -> None:
        """Make a goal of its fields, or of the short forms `validator` and `model`."""

    # No field: a function cannot be written into a goal file or a log.
    _callables: tuple[Any, ...] = PrivateAttr(default=())

    @property
    def callables(self) -> tuple[Any, ...]:
        """The validators that are objects of the calling program.

        These are functions and Validators; no copy in a file or log has them.
        """
        return self._callables

    @model_validator(mode="wrap")
    @classmethod
    def _with_callables(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if not isinstance(data, Mapping) or from_file(info):
            return handler(data)
        keys = [key for key in ("validator", "validators") if key in data]
        # Both of them are an error of the next validator.
        if len(keys) != 1:
            return handler(data)
        table = dict(data)
        table["validators"], callables = _without_callables(table.pop(keys[0]))
        goal = handler(table)
        if callables:
            goal._callables = callables  # noqa: SLF001  of this class
        return goal

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: object) -> object:
        if not isinstance(data, Mapping) or not SHORT_KEYS.keys() & data.keys():
            return data
        for key, message in short_form_conflicts(data):
            raise InnerError((key,), message, whole=True)
        table = dict(data)
        if "validator" in table:
            table["validators"] = validator_tables(table.pop("validator"))
        if "model" in table:
            agent = table.get("agent", {})
            if isinstance(agent, tables.AgentConfig):
                agent = agent.model_dump()
            elif isinstance(agent, str | list | tuple):
                agent = {"use": agent}
            table["agent"] = {**agent, "model": table.pop("model")}
        return table

    @model_validator(mode="after")
    def _with_default_timeout(self) -> Goal:
        """Limit a run of an external agent without a timeout and without a budget.

        A timeout of inf is one that the goal names.
        """
        names_limit = "timeout" in self.model_fields_set or self.budget.limited
        if self.agent.external and not names_limit:
            # The object is frozen, but not in use yet.
            object.__setattr__(self, "timeout", tables.DEFAULT_EXTERNAL_TIMEOUT)
        return self

    @property
    def model_tables(self) -> dict[Account, ModelTable]:
        """The tables that may name a model, by account."""
        return {"agent": self.agent, "judge": self.judge, "critic": self.critic}

    @property
    def scoring(self) -> tables.ValidatorSpec | None:
        """The command or callable that scores each round; None if there is none."""
        return self.critic.spec

    @property
    def has_judge(self) -> bool:
        """Whether a judge audits the rounds."""
        return bool(self.judge.use or self.judge.model)

    @property
    def unlimited(self) -> bool:
        """Whether the run has no limit: no maximum of rounds, no timeout, no budget."""
        limits = (
            self.max_iterations,
            self.timeout,
            self.budget.tokens,
            self.budget.cost_usd,
        )
        return all(limit is None for limit in limits)
