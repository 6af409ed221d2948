"""The goal: what done means, which agent and judge work on it, and its limits. Reads no file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from goalrunner.core.agent_preset import BudgetName, Preset, Protocol
from goalrunner.core.base import Frozen

ApprovalKind = Literal["complete", "shell", "write", "network", "checks"]
"""Calling the goal complete; running a command; writing a file; a command that is known to use the network; counting the
agent's versions of existing tests and test-runner configuration."""

Requirable = Literal["complete", "shell", "write", "network"]
"""The kinds that a goal file may require an approval for."""

DEFAULT_EXPIRY = 24 * 3600.0


class Approvals(Frozen):
    """What waits for a person before it is done."""

    require: tuple[Requirable, ...] = Field(default=(), description="kinds of actions")
    commands: tuple[str, ...] = Field(default=(), description="patterns of command lines, `*` for anything")
    expires: float | None = Field(default=DEFAULT_EXPIRY, gt=0, description="seconds; None: never")
    on_deny: Literal["stop", "continue"] = Field(
        default="stop", description='"continue": the agent is told, and the run goes on'
    )


AGENT_MODEL = "agent"
"""As a judge's model: the agent's own model, again as a separate instance with an account of its own."""

CHAT = "chat"
"""As an agent: the built-in one."""

DEFAULT_MAX_ITERATIONS = 10
DEFAULT_MAX_STEPS = 100
DEFAULT_VALIDATOR_TIMEOUT = 600.0
DEFAULT_AUDIT_TOKENS = 12_000


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
"""A string that says something."""
Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0, strict=True)]


class Expectation(Frozen):
    """What makes a shell validator green: an exit code, and where given a pattern in its output."""

    exit_code: int = Field(default=0, ge=0, le=255)
    output: str | None = Field(
        default=None, description="regular expression (Python's re, multiline) to find in the output"
    )


RunVariable = Literal["GOAL_RUN_ID", "GOAL_ITERATION", "GOAL_OBJECTIVE", "GOAL_RESPONSE_FILE"]
"""An environment variable with which a run describes itself to a validator that names it."""


class ValidatorSpec(Frozen):
    """A check that the runner runs: a shell command (`run`) or a callable (`python = "package.module:function"`)."""

    name: str = Field(default="", description="for people; made from the command where it is missing")
    run: Text | None = Field(default=None, description="command line, run through sh -c in the workspace")
    python: Text | None = Field(default=None, description="package.module:function, run in a child process")
    timeout: Seconds | None = Field(default=DEFAULT_VALIDATOR_TIMEOUT, description="seconds; None: no limit")
    cwd: str = Field(default="", description="folder relative to the workspace")
    env: dict[str, str] = Field(default_factory=dict, description="added to the environment")
    pass_env: tuple[RunVariable, ...] = Field(
        default=(), description="variables of the run that it gets although neither its line nor its script names them"
    )
    serial: bool = Field(default=False, description="never beside another validator")
    hidden: bool = Field(
        default=False, description="runs once the others are green; the agent never sees its name or output"
    )
    retries: int | None = Field(
        default=None,
        ge=0,
        strict=True,
        description="how often a red result is run again; green after red then counts as green. None: a third run "
        "decides if a validator was red and green on the same files; 0: it is red then",
    )
    expect: Expectation = Field(default_factory=Expectation)

    @model_validator(mode="after")
    def _one_of_both(self) -> ValidatorSpec:
        if (self.run is None) == (self.python is None):
            raise ValueError("a validator has either run or python")
        return self


class AgentConfig(Frozen):
    """Who does the work."""

    use: str = Field(
        default=CHAT, description='"chat", the built-in agent; "command" or "acp" with a command; or a preset\'s name'
    )
    command: tuple[str, ...] = Field(
        default=(), description="words of an external agent's command; one word alone is run through sh -c"
    )
    args: tuple[str, ...] = Field(default=(), description="words added to the command of a preset")
    protocol: Protocol | None = Field(default=None, description="how a preset is driven; None: as it does best")
    model: str = Field(default="", description="LiteLLM's naming, or scripted/<file>")
    max_steps: Count = Field(default=DEFAULT_MAX_STEPS, description="model calls in one round")
    system_prompt: str | None = Field(default=None, description="replaces the built-in one")
    params: dict[str, Any] = Field(
        default_factory=dict, description="passed on to the model: temperature, max_tokens, ..."
    )
    env: dict[str, str] = Field(default_factory=dict, description="added to the environment of the agent's commands")
    api_base: str | None = None
    api_key_env: str | None = Field(default=None, description="name of the environment variable that holds the key")

    @property
    def external(self) -> bool:
        """Whether it is a program of its own, whose word is all that is known of what it did."""
        return self.use != CHAT


class JudgeConfig(Frozen):
    """Who audits: `JudgeConfig(model, system_prompt)`. (Source of these two: GoalLoop's JudgeConfig.)"""

    model: str = Field(default="", description='LiteLLM\'s naming, scripted/<file>, or "agent"; empty: no judge')
    system_prompt: str | None = Field(default=None, description="replaces the built-in one")
    minimum_score: float = Field(default=0.0, ge=0, le=1, description="the score that complete needs as well")
    require: Literal["any", "runner"] = Field(
        default="any", description='"runner": what an external agent reports of itself proves nothing'
    )
    max_tokens: int = Field(
        default=DEFAULT_AUDIT_TOKENS,
        ge=2_000,
        strict=True,
        description="of the prompt of an audit, however long the run",
    )
    params: dict[str, Any] = Field(default_factory=dict, description="passed on to the model")
    api_base: str | None = None
    api_key_env: str | None = Field(default=None, description="name of the environment variable that holds the key")

    def __init__(self, model: str = "", system_prompt: str | None = None, **more: Any) -> None:
        fields: dict[str, Any] = {"model": model, "system_prompt": system_prompt, **more}
        super().__init__(**fields)


class Budget(Frozen):
    """What the run may spend on models, agent and judge together."""

    tokens: Count | None = None
    cost_usd: Annotated[float, Field(gt=0)] | None = Field(default=None, description="US dollars")
    allow_unenforced: tuple[BudgetName, ...] = Field(
        default=(), description="budgets that may be set although the agent does not report what they need"
    )

    @property
    def limited(self) -> tuple[BudgetName, ...]:
        """The budgets that are set."""
        names: tuple[BudgetName, ...] = get_args(BudgetName)
        return tuple(name for name in names if getattr(self, name) is not None)

    @property
    def unenforced(self) -> tuple[BudgetName, ...]:
        """The budgets that are set and may count what is known alone."""
        return tuple(name for name in self.limited if name in self.allow_unenforced)


class WorkspaceConfig(Frozen):
    """Where the work happens."""

    path: str = Field(default="", description="absolute after loading; empty: the current folder")
    protect: tuple[Text, ...] = Field(
        default=(), description="patterns of paths that have their original content when validators run"
    )
    editable: tuple[Text, ...] = Field(
        default=(), description="patterns of paths that the agent may change; everything else is as at the start"
    )
    allow: tuple[Text, ...] = Field(
        default=(), description="patterns of paths that may change although a rule protects them"
    )
    outputs: tuple[Text, ...] = Field(
        default=(), description="patterns of files that are copied from the check environment into the workspace"
    )
    dependencies: tuple[Text, ...] = Field(
        default=(), description="patterns of ignored folders that hold installed dependencies"
    )
    setup: Text | None = Field(
        default=None, description="command that prepares a fresh checkout, in which validators then run"
    )
    check: Literal["overlay", "in-place", "checkout"] | None = Field(
        default=None, description="the kind of check environment; None: the strictest one that works here"
    )
    sandbox: Literal["auto", "bwrap", "none"] = Field(
        default="none", description="the jail of the agent's commands and of the validators; auto: what works here"
    )
    network: bool = Field(default=True, description="False: commands and validators reach no other machine")


class RedactConfig(Frozen):
    """What is a secret beside what looks like one, and what is none although it looks like one."""

    extra: tuple[Text, ...] = Field(default=(), description="$NAME, a variable that holds one, or /pattern/")
    allow: tuple[Text, ...] = Field(default=(), description="texts that are never replaced")


class MemoryConfig(Frozen):
    """What may be kept beyond a run. Nothing, where the goal says nothing."""

    promote: tuple[Literal["event", "fact", "preference", "policy_reference"], ...] = Field(
        default=(), description="kinds that may be promoted"
    )
    recall: bool = Field(default=False, description="whether promoted facts of this owner are told to the agent")


class Goal(Frozen):
    """What the goal file holds, with every default filled in."""

    objective: Text = Field(description="what is to be done, in the words that agent and judge are given")
    success_criteria: tuple[Text, ...] = Field(
        default=(), description="observable requirements; empty: the judge derives them"
    )
    constraints: tuple[Text, ...] = Field(
        default=(), description="told to agent and judge; a broken one is not complete"
    )
    owner: str = ""
    risk_class: Literal["low", "medium", "high", "critical"] = "low"
    deliverable: Literal["workspace", "response"] = "workspace"
    preserve_context: bool = Field(
        default=True, description="False: each retry sees original input and latest feedback"
    )
    resume_prompt: str | None = Field(
        default=None, description="template of the retry message: {feedback} {iteration} {missing} {objective}"
    )
    baseline: Literal["any", "red"] = Field(
        default="any", description='"red" refuses a start at which every check passes'
    )
    stall_rounds: Count | None = Field(
        default=3, description="equal rounds in a row that count as a stall; None: never"
    )
    max_iterations: Count | None = Field(default=DEFAULT_MAX_ITERATIONS, description="None: no limit")
    timeout: Seconds | None = Field(default=None, description="seconds of active time; None: no limit")
    agent: AgentConfig = Field(default_factory=AgentConfig)
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    budget: Budget = Field(default_factory=Budget)
    workspace: WorkspaceConfig = Field(default_factory=WorkspaceConfig)
    approvals: Approvals = Field(default_factory=Approvals)
    redact: RedactConfig = Field(default_factory=RedactConfig)
    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    validators: tuple[ValidatorSpec, ...] = ()
    agents: dict[str, Preset] = Field(default_factory=dict, description="presets of the user's own, by name")

    @property
    def has_judge(self) -> bool:
        """Whether a second model audits the run."""
        return bool(self.judge.model)

    @property
    def unlimited(self) -> bool:
        """Whether nothing at all stops the run: no cap, no deadline, no budget."""
        limits = (self.max_iterations, self.timeout, self.budget.tokens, self.budget.cost_usd)
        return all(limit is None for limit in limits)
