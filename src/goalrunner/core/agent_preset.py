"""An external agent as data: how it is started, and where in its output its calls and its usage stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from goalrunner.core.base import Frozen

Protocol = Literal["command", "acp"]
"""How an external agent is driven: one process a round, or one a run that speaks the Agent Client Protocol."""

BudgetName = Literal["tokens", "cost_usd"]
"""A budget by its key in the goal file."""

Scope = Literal["turn", "session"]
"""What a number is of that an agent reports: one turn of it, or all of the session so far."""


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
    fields: dict[str, tuple[str, ...]] = Field(
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

    argv: tuple[str, ...] = Field(default=(), description="command of a first round")
    resume: tuple[str, ...] = Field(default=(), description="command of a later one; empty: it cannot resume")
    acp: tuple[str, ...] = Field(default=(), description="command that speaks ACP on stdin and stdout; empty: none")
    acp_reports: dict[BudgetName, Scope] = Field(
        default_factory=dict,
        description="what it reports of each turn where it speaks ACP, and of what: budgets of these can be kept to then",
    )
    model: tuple[str, ...] = Field(default=(), description='words that choose a model: ["--model", "{name}"]')
    env: dict[str, str] = Field(default_factory=dict, description="added to its environment")
    asking: dict[str, str] = Field(
        default_factory=dict,
        description="added to it where a person decides on what it does: with it, an agent that speaks ACP asks first",
    )
    jailed_env: dict[str, str] = Field(
        default_factory=dict, description="added to it in a jail, and only there: what says that it is in one"
    )
    helpers: tuple[str, ...] = Field(
        default=(),
        description="names of processes that it starts for itself where it speaks ACP, and needs in later rounds: a terminal."
        " They are left alone at the end of a round, and their children; not those below",
    )
    keys: tuple[str, ...] = Field(
        default=(), description="variables that hold its key: given on to it, never to its commands"
    )
    login: tuple[str, ...] = Field(default=(), description="files below HOME, any of which shows that it is logged in")
    home: tuple[str, ...] = Field(
        default=(), description="paths below HOME that it needs in a jail, its login among them"
    )
    version: tuple[str, ...] = Field(default=(), description="command that prints its version")
    install: str = Field(default="", description="what to type where it is not there")
    acp_install: str = Field(
        default="", description="what to type where the program that speaks ACP is not there; empty: the same"
    )
    sign_in: str = Field(default="", description="what to type where it has neither key nor login")
    denied: tuple[str, ...] = Field(
        default=(),
        description="texts, without regard to case, by which its own failure is known as a wrong or missing key",
    )
    hints: dict[str, str] = Field(
        default_factory=dict,
        description="text of a failure of its own, without regard to case -> what to type next",
    )
    server: dict[str, str] = Field(
        default_factory=dict, description="environment that points it at another server, whose address is {base_url}"
    )
    server_args: tuple[str, ...] = Field(default=(), description="the same as words of its command")
    server_files: dict[str, str] = Field(
        default_factory=dict,
        description="the same as files below a HOME that is its own for a trial: path -> what the file holds",
    )
    wire: Literal["", "openai", "responses", "anthropic", "gemini"] = Field(
        default="", description="what it speaks with that server; empty: it cannot be pointed at one"
    )
    stream: Literal["json", "text"] = Field(default="text", description="lines of JSON, or words alone")
    session_after: str = Field(
        default="", description="words at the start of a line that is no JSON, after which the session id stands"
    )
    rules: tuple[StreamRule, ...] = ()

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
