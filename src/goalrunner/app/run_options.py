"""The options of a run besides its goal."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict, cast

from pydantic import ValidationError

from goalrunner.core.agent_ports import Approver, Conversation, Message, Observer
from goalrunner.core.constructors import shown_argument
from goalrunner.core.critic import Critic, CriticConfig, CriticRule
from goalrunner.core.errors import UsageError, unexpected_keyword
from goalrunner.core.events import Account, Event, Record
from goalrunner.core.goal import Goal, is_validator
from goalrunner.core.goal_tables import (
    AGENT_MODEL,
    DEFAULT_MAX_ITERATIONS,
    JudgeConfig,
    NotifyConfig,
    ValidatorSpec,
)
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Judge, Validator
from goalrunner.engine.parts import RefuseCall, refuse_no_call
from goalrunner.engine.prompts import ResumePrompt
from goalrunner.engine.turns import accepts
from goalrunner.llm import LLM, as_model
from goalrunner.records.event_log import LogMirror, no_mirror
from goalrunner.records.run_folder import RunFolder, goal_home
from goalrunner.validators.child import arity
from goalrunner.validators.python_validators import CallableValidator


def moved_path(path: str, places: Mapping[str, str]) -> str:
    """Return a path in its new place; unchanged if it is below none of the folders."""
    for origin, target in places.items():
        if path == origin or path.startswith(f"{origin}/"):
            return target + path[len(origin) :]
    return path


@dataclass(frozen=True)
class CopyOptions:
    """What differs for a run in a copy of its workspace."""

    folder: RunFolder
    """The folder of the run, which was made with the copy."""
    store: Path
    """The snapshot store: the index and the lock of the copy, and the objects of the
    workspace's store.
    """
    hide_new_files: Callable[[], None] = lambda: None
    """Hides the files that a person made meanwhile outside of the copy; called before
    each snapshot.
    """
    notes: tuple[str, ...] = ()
    """Lines for people at the start of the run."""
    objects: tuple[Path, ...] = ()
    """Folders through which git in the copy reads the objects of the
    workspace's repositories, so that commands in a sandbox must see them.
    """
    places: Mapping[str, str] = field(default_factory=dict)
    """For each folder of the workspace's tree, the one in the copy if the copy has
    other paths; absolute and without links.
    """

    def inside(self, path: Path) -> Path:
        """Return where the copy has this path."""
        return Path(moved_path(str(path), self.places))

    def outside(self, path: Path) -> Path:
        """Return the path outside of the copy for one in it."""
        origins = {target: origin for origin, target in self.places.items()}
        return Path(moved_path(str(path), origins))


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The settings of a run besides its goal.

    They come from the command line or a calling program.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    # Where the run's folder is made.
    home: Path = field(default_factory=lambda: goal_home(os.environ))
    observers: Sequence[Observer] = ()
    approver: Approver | None = None  # asked where something waits for a person
    goal_file: Path | None = (
        None  # where the goal was read from; it is always protected
    )
    run_id: str = ""  # of the new run; empty: it gets a new one
    record: Path | None = (
        None  # where the models' replies are recorded, for `scripted/<file>`
    )
    continues: RunFolder | None = None  # a run whose conversation this one continues
    conversation: Conversation | None = (
        None  # None: made from the goal, as judge and critic
    )
    critic: LLM | Critic | None = None
    # Run in this process, besides those of the goal.
    validators: tuple[Validator, ...] = ()
    resume_prompt: ResumePrompt | None = None
    prompt: str | None = (
        None  # the first user message, if it differs from the objective
    )
    copy: CopyOptions | None = None
    """The copy of the workspace in which this process works."""
    keeps_run: bool = True  # False: for a check, whose records are removed at its end
    in_memory: bool = False  # whether nothing of the run is kept
    keeps_newest: int | None = None
    """After the run, only so many of the newest runs with this number are kept."""
    reuses_baseline: bool = False  # whether that of a `goal check` before it counts
    needs_round: bool = False  # whether the agent works even if the baseline is green
    trusts_objective: bool = True
    """Whether words of the objective may ask for changes of checks."""
    labels: tuple[str, ...] = ()  # further labels of the run, which the caller knows
    adapt_judge: Callable[[Judge], Judge] = lambda judge: judge
    """Returns the judge to use in place of the run's own one."""
    refuse_call: RefuseCall = refuse_no_call
    """Called before each call of the agent or a model."""
    log_mirror: LogMirror = no_mirror
    """Called with the lines of the log before each effect."""
    lost_usage: Mapping[Account, Usage] = field(default_factory=dict)
    """What a resumed run has used that its log does not hold, by account."""
    abandoned_calls: tuple[str, ...] = ()
    """Calls that its log does not hold either, for people: "shell: make"."""

    @property
    def goal_folder(self) -> Path | None:
        """The folder of the goal file, absolute and without links."""
        if self.goal_file is None:
            return None
        return self.goal_file.absolute().parent.resolve()

    @property
    def live(self) -> bool:
        """Whether the agent keeps working while its work is checked.

        Then no check may run in place.
        """
        return getattr(self.conversation, "live", False)

    @property
    def sees_files(self) -> bool:
        """Whether the files of the agent are on this machine, in a known folder.

        If not, there are no snapshots and no check environment.
        """
        return getattr(self.conversation, "sees_files", True)

    @property
    def takes_snapshots(self) -> bool:
        """Whether the files of a workspace are compared."""
        return self.sees_files and not self.in_memory

    @property
    def copy_store(self) -> Path | None:
        """The snapshot store of the copy; None in the workspace itself."""
        return self.copy.store if self.copy is not None else None

    @property
    def own_models(self) -> tuple[object, ...]:
        """The models that the calling program passed, among None and other forms."""
        return getattr(self.conversation, "llm", None), self.critic

    def handed(self, goal: Goal) -> tuple[str, ...]:
        """Return the parts that the calling program passed, by name.

        Only that program can make them again.
        """
        parts = {
            "conversation": self.conversation,
            "judge": goal.judge.instance,
            "critic": self.critic,
            "validators": self.validators,
            # A text is stored with the run.
            "resume_prompt": callable(self.resume_prompt),
        }
        return tuple(name for name, value in parts.items() if value)


class Completing(Protocol):
    """A model of the calling program."""

    def complete(self, messages: Sequence[Message], /) -> str | Awaitable[str]:
        """Return the answer to system and user messages."""


JudgeChoice = (
    LLM
    | JudgeConfig
    | str
    | Completing
    | Callable[[Sequence[Message]], str | Awaitable[str]]
    | None
)
"""A model instance, its configuration, its name, a function or object that answers
messages, or no judge.
"""

CriticChoice = Critic | LLM | CriticConfig | str | None
"""A callable `(response, agent)`, a model instance, a configuration, a model's name, or
None: that of the Goal.
"""


Check = str | ValidatorSpec | Validator | Callable[..., Any]
"""A shell command, a specification, a Validator, or a callable `(response, agent)` that
says whether it passed.
"""

Checks = Check | Iterable[Check]  # one check, or any number of them


class RunKeywords(TypedDict, total=False):
    """The keywords of `run_goal`, `run_goal_file`, `resume` and `GoalController`.

    What is left out is as in the Goal, or its default. `help(run_goal)` shows the
    defaults for an objective that is a text.

    >>> from typing import Unpack
    >>> from goalrunner import GoalOutcome, RunKeywords, run_goal
    >>> def careful(agent, **options: Unpack[RunKeywords]) -> GoalOutcome:
    ...     limits: RunKeywords = {"max_iterations": 3, "timeout": "10m"}
    ...     return run_goal(agent, "Answer.", **{**limits, **options})
    """

    judge: JudgeChoice
    """Who audits each round; None: the validators decide, or the agent's own model."""
    validators: Checks
    """Checks of each round, one or any number; with a Goal, added to its own."""
    critic: CriticChoice
    """Who scores each round before it is checked; None: that of the Goal, or none."""
    max_iterations: float | None
    """Rounds; None or inf: no limit."""
    timeout: float | str | None
    """Active time in seconds, or "30m"; None or inf: no limit."""
    wait: float | str | None
    """Longest sum of waits for usage limits to reset: seconds, or "6h"; None or inf: no
    limit."""
    tokens: float | None
    """Tokens of agent, judge and critic together; None or inf: no limit."""
    cost_usd: float | None
    """US dollars of all of them; None or inf: no limit."""
    preserve_context: bool
    """False: each retry begins with the chat of the start. Fixed when a run is
    resumed."""
    workspace: Path | str | None
    """Folder in which the agent works; None: that of the conversation or the Goal.
    Fixed when a run is resumed."""
    resume_prompt: ResumePrompt | None
    """The message before a retry: a template, or a function of the feedback; None: the
    built-in one."""
    prompt: str | None
    """The first user message; None: the objective."""
    note: str
    """A message to the agent of a run that is resumed."""
    on_event: Callable[[Event], None] | None
    """Called with each event once it is on disk."""
    on_text: Callable[[str], None] | None
    """Called with each piece of the agent's text while it streams."""
    home: Path | str | None
    """Where the run's folder is made; None: GOAL_HOME."""
    records: str
    """Which records stay after a run: "all"; "none", which writes no file; "last:20",
    only those of the 20 newest runs that were made with this value."""
    approver: Approver | None
    """Decides instead of a person; None: what waits for a person ends the run."""


KEYWORD_DEFAULTS: Mapping[str, Any] = {
    "judge": None,
    "validators": (),
    "critic": None,
    "max_iterations": DEFAULT_MAX_ITERATIONS,
    "timeout": None,
    "wait": 0.0,
    "tokens": None,
    "cost_usd": None,
    "preserve_context": True,
    "workspace": None,
    "resume_prompt": None,
    "prompt": None,
    "note": "",
    "on_event": None,
    "on_text": None,
    "home": None,
    "records": "all",
    "approver": None,
}
"""The keywords of a new run with an objective as a text; a Goal has its own."""

_RECORDS = re.compile(r"all|none|last:([1-9][0-9]{0,5})")

_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "on_event": (callable, "a function"),
    "on_text": (callable, "a function"),
    "resume_prompt": (
        lambda value: isinstance(value, str) or (callable(value) and accepts(value, 1)),
        "a text, or a function of one argument, the feedback",
    ),
    "prompt": (
        lambda value: isinstance(value, str) and bool(value.strip()),
        "a text that is not empty",
    ),
    "approver": (
        lambda value: hasattr(value, "approve") and hasattr(value, "answer"),
        "an object with the methods approve and answer",
    ),
    "home": (lambda value: isinstance(value, str | Path), "a path"),
    "workspace": (lambda value: isinstance(value, str | Path), "a path"),
    "records": (
        lambda value: isinstance(value, str) and bool(_RECORDS.fullmatch(value)),
        '"all", "none", or "last:20" for the 20 newest runs',
    ),
}
"""By keyword: a check of a value that is not None, and a description of valid values.
"""


def options_of(keywords: RunKeywords) -> tuple[RunOptions, tuple[ValidatorSpec, ...]]:
    """Return the options among the keywords of a call, and the checks of its goal.

    All other keywords belong to the goal as well. Raise TypeError and UsageError.
    """
    unknown = sorted(keywords.keys() - RunKeywords.__annotations__.keys())
    if unknown:
        # The error that Python raises for a function with named parameters.
        raise unexpected_keyword(unknown[0], RunKeywords.__annotations__)
    for name, value in keywords.items():
        if value is None or name not in _FORMS:
            continue
        fits, form = _FORMS[name]
        if not fits(value):
            shown = shown_argument(value)
            raise UsageError(
                f"{name} must be {form}, not {shown}",
                "help(goalrunner.RunKeywords) describes the keywords",
            )
    resume_prompt = keywords.get("resume_prompt")
    if isinstance(resume_prompt, str):
        _refuse_invalid_template(resume_prompt)
    observers: list[Observer] = []
    on_event, on_text = keywords.get("on_event"), keywords.get("on_text")
    if on_event:
        observers.append(Callback(on_event))
    if on_text:
        observers.append(Callback(on_text=on_text))
    kept_records = _RECORDS.fullmatch(keywords.get("records") or "all")
    newest = kept_records[1] if kept_records is not None else None
    # Only once: the checks may come from a generator.
    specs, validators = split_checks(keywords.get("validators", ()))
    in_memory = keywords.get("records") == "none"
    if in_memory:
        refuse_processes(specs)
    options = RunOptions(
        home=Path(keywords.get("home") or goal_home(os.environ)),
        observers=observers,
        approver=keywords.get("approver"),
        critic=own_critic(keywords.get("critic")),
        validators=validators,
        resume_prompt=resume_prompt,
        prompt=keywords.get("prompt"),
        in_memory=in_memory,
        keeps_newest=int(newest) if newest else None,
    )
    return options, specs


def refuse_processes(specs: Iterable[ValidatorSpec]) -> None:
    """Raise UsageError for a check that needs the records of a run.

    It runs in a process of its own, whose output is evidence; and its environment is
    made of snapshots of the workspace, which are files.
    """
    for spec in specs:
        command = spec.name or spec.run or spec.python
        raise UsageError(
            f'the validator {command} cannot run with records="none": its output has '
            "to be kept as evidence, and its check environment is made of snapshots "
            "of the workspace",
            "pass a function (response, agent) instead, or keep records: records="
            '"last:20"',
        )


def _refuse_invalid_template(text: str) -> None:
    """Raise UsageError if a `resume_prompt` names something that it cannot contain."""
    try:
        text.format(feedback="", iteration="", missing="", objective="")
    except (KeyError, IndexError, ValueError) as error:
        hint = "it may say {feedback} {iteration} {missing} {objective}; write {{ for {"
        raise UsageError(f"resume_prompt is not valid: {error}", hint) from None


def judge_of(
    goal: Goal, judge: JudgeChoice = None, *, default: bool = False
) -> JudgeConfig:
    """Return the configuration of a judge, with the model itself if one was passed.

    None is the judge of the goal. A judge that has settings but no model uses the
    agent's; with `default`, so does a goal without a judge. Raise UsageError for an
    invalid judge.
    """
    if isinstance(judge, JudgeConfig):
        config, model = judge, None
    else:
        config, model = goal.judge, judge
    has_name = isinstance(model, str) and model.strip()
    if model is not None and not has_name and as_model(model) is None:
        raise UsageError(
            f"{shown_argument(judge)} is not a judge",
            "give an LLM, a model's name, a JudgeConfig, or a function or object with "
            "complete(messages) -> str",
        )
    if model is None and not config.words:
        has_settings = judge is not None or config != JudgeConfig()
        if default or has_settings:
            model = AGENT_MODEL
    if model is None:
        return config
    return JudgeConfig(model, **config.model_dump(exclude={"model", "use"}))


def own_critic(critic: Any) -> LLM | Critic | None:
    """Return a critic that is a model or a callable; None for those of a Goal.

    Raise UsageError for an invalid one.
    """
    if isinstance(critic, LLM):
        return critic.separate("critic")
    if critic is None or isinstance(critic, CriticConfig):
        return None
    if isinstance(critic, str) and critic.strip():
        return None
    if not callable(critic):
        raise UsageError(
            f"{critic!r:.60} is not a critic",
            "give a callable (response, agent), an LLM, a model's name, or a "
            "CriticConfig",
        )
    limits: dict[str, Any] = {}
    for name in ("threshold", "max_refinements"):
        if hasattr(critic, name):
            limits[name] = getattr(critic, name)
    try:
        CriticRule(name="critic", **limits)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise UsageError(
            f"{name} of the critic is {limits[name]!r:.40}",
            "threshold is a number from 0 to 1",
        ) from None
    return cast("Critic", critic)


def goal_tables_of(keywords: RunKeywords) -> dict[str, object]:
    """Return the keywords that replace a table of the goal.

    That is a critic that is a model's name or a configuration.
    """
    critic = keywords.get("critic")
    return {"critic": critic} if isinstance(critic, str | CriticConfig) else {}


def split_checks(
    checks: Checks,
) -> tuple[tuple[ValidatorSpec, ...], tuple[Validator, ...]]:
    """Return the checks that run in child processes, and those that run in this one.

    Shell commands come first. Raise UsageError for an invalid check.
    """
    commands: list[ValidatorSpec] = []
    specs: list[ValidatorSpec] = []
    callables: list[Any] = []
    for check in _each(checks):
        if isinstance(check, str) and check.strip():
            commands.append(ValidatorSpec(name=check, run=check))
        elif isinstance(check, ValidatorSpec):
            specs.append(check)
        elif is_validator(check):
            callables.append(check)
        elif callable(check) and not isinstance(check, type):
            if arity(check) is None:
                name = getattr(check, "__name__", type(check).__name__)
                why = f"the validator {name} cannot be called with (response, agent)"
                raise UsageError(why, f"write: def {name}(response, agent):")
            callables.append(CallableValidator(check))
        else:
            raise UsageError(
                f"{check!r:.60} is not a validator",
                "give shell commands, ValidatorSpecs, Validators, or callables "
                "(response, agent): validators=[...]",
            )
    return (*commands, *specs), tuple(callables)


def _each(checks: Any) -> Iterable[Any]:
    """Return the checks, or the only one. A text and a mapping are iterable as well."""
    is_value = isinstance(checks, str | bytes | Mapping | ValidatorSpec)
    if is_value or callable(checks) or is_validator(checks):
        return (checks,)
    return checks if isinstance(checks, Iterable) else (checks,)


def only_checks(goal: Goal) -> Goal:
    """Return the goal with its workspace and validators alone, for checks.

    Outside of a run, no agent works and no person is notified.
    """
    changes: dict[str, object] = {"notify": NotifyConfig(bell=False)}
    fields = Goal.model_fields
    for name in (
        "agent",
        "judge",
        "critic",
        "budget",
        "records",
        "memory",
        "telemetry",
        "approvals",
        "risk_class",
    ):
        changes[name] = fields[name].get_default(call_default_factory=True)
    return goal.model_copy(update=changes)


class Callback:
    """An observer that passes events, or the agent's streamed text, to a function."""

    def __init__(
        self,
        on_event: Callable[[Event], None] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self._on_event = on_event
        if on_text is not None:
            self.on_text = on_text

    def on_record(self, record: Record) -> None:
        if self._on_event is not None:
            self._on_event(record.event)
