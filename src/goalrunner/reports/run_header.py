"""The first lines of a run: its goal, workspace, models, limits and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goalrunner.core import events
from goalrunner.core.field_types import SCRIPTED
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AGENT_MODEL,
    BUILTIN,
    DEFAULT_EXTERNAL_TIMEOUT,
    Approvals,
    ValidatorSpec,
)
from goalrunner.core.run_state import RunState
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, ReportLine, facts, nonempty_facts
from goalrunner.reports.short_forms import home_path, model_name
from goalrunner.reports.terminal_text import join_nonempty

UNLIMITED = Fact(
    "warning",
    "no limit stops this run: no round limit, no timeout, no budget",
    tone="warn",
)
"""The warning at the start of a run without any limit."""
_NO_JUDGE = "none; the validators decide"


def start_lines(
    state: RunState, place: str, started: events.RunStarted | None = None
) -> Iterator[ReportLine]:
    """Yield workspace, run and models; at the start of a run its limits and warnings.

    `place` is more about the workspace: "git, clean". `started` is None for a run that
    is resumed.
    """
    # A Python program may pass its own conversation, which has no name.
    agent = state.agent_command or model_name(state.models.get("agent", ""))
    judge = model_name(state.models.get("judge", ""))
    copy = "in a copy" if state.isolated else ""
    if state.clone:
        copy = "in a clone"
    rows = {
        "run": state.goal.run_id,
        "workspace": _workspace(state.workspace, place, copy),
        "agent": agent or "a conversation that was passed in",
        "judge": judge or _NO_JUDGE,
    }
    yield from nonempty_facts(rows)
    if started is not None:
        yield from _rule_lines(state, started)
    yield from _recorded_lines(state.models)


def _rule_lines(state: RunState, started: events.RunStarted) -> Iterator[ReportLine]:
    """Yield limits, checks and approvals of a new run, and its warnings."""
    plan = state.plan
    rows = {
        "critic": "",
        "limits": _limits(vars(plan), is_external=state.external),
        "checks": started.checks,
        "approvals": waits_for(plan.approvals, state.goal.risk_class),
    }
    if plan.critic:
        rows["critic"] = _with_minimum(plan.critic.name, plan.critic.threshold)
    if started.continues:
        rows["continues"] = f"the conversation of {started.continues}"
    yield from nonempty_facts(rows)
    # Such a run may cost any amount, so it is said at its start.
    if not any((plan.max_iterations, plan.timeout, plan.tokens, plan.cost_usd)):
        yield UNLIMITED
    for note in started.notes:
        yield Fact("note", note, tone="warn")


def _limits(values: Mapping[str, Any], *, is_external: bool) -> str:
    """Return the limits, and how to lift the default timeout of external agents."""
    has_budget = values["tokens"] is not None or values["cost_usd"] is not None
    has_default_timeout = values["timeout"] == DEFAULT_EXTERNAL_TIMEOUT
    about_timeout = ""
    # A goal with a budget has no default timeout, so its author chose this one.
    if is_external and has_default_timeout and not has_budget:
        about_timeout = "default; --timeout inf lifts it"
    return figures.limits(values, about_timeout)


def _workspace(path: str, *remarks: str) -> str:
    return join_nonempty(" · ", home_path(path), *remarks)


def _with_minimum(name: str, minimum: float) -> str:
    """Return who gives a score, and the least score that is enough."""
    return f"{name} · at least {figures.score(minimum)}" if minimum else name


def waits_for(approvals: Approvals, risk: events.RiskClass) -> str:
    """Return which decisions a run leaves to a person; empty if there are none."""
    kinds = list(approvals.require) + [f'"{pattern}"' for pattern in approvals.commands]
    # A risky goal asks a person about more than its file lists.
    if risk == "critical":
        kinds = ["complete", "every command and write"]
    elif risk == "high" and "complete" not in kinds:
        kinds = ["complete", *kinds]
    if not kinds:
        return ""
    text = f"a person decides on {', '.join(kinds)}"
    if approvals.expires is None:
        return text
    return f"{text} · within {figures.elapsed(approvals.expires)}"


def _recorded_lines(models: Mapping[str, str]) -> Iterator[ReportLine]:
    """Yield a line if replies are played from a recording."""
    roles = [role for role, model in models.items() if model.startswith(SCRIPTED)]
    if roles:
        # Such a run shows how the runner works, and nothing about a model.
        yield Fact(
            "recorded",
            f"replies of {' and '.join(roles)} are played from a recording; "
            "tools and checks run for real",
        )


def resolved_lines(
    goal: Goal,
    agent: str = "",
    place: str = "",
    checked: Sequence[tuple[str, str]] = (),
) -> Iterator[ReportLine]:
    """Yield objective, workspace, models, limits and checks of a goal.

    `agent` is an external one with its command, `place` more about the workspace: "git,
    clean". `checked` are labels and texts about the check environment.
    """
    yield Fact("goal", goal.objective)
    yield from facts("criteria", goal.success_criteria, whole=True)
    yield from facts("keeps", goal.constraints, whole=True)
    judge = _judge_name(goal)
    critic = goal.critic
    # Tokens and dollars are in the table of the budget.
    limits = {**vars(goal), **vars(goal.budget)}
    rows = {
        "workspace": _workspace(goal.workspace.path, place),
        "agent": agent or goal.agent.model,
        "judge": _NO_JUDGE,
        "critic": "",
        "limits": _limits(limits, is_external=goal.agent.external),
    }
    if goal.has_judge:
        rows["judge"] = _with_minimum(judge, goal.judge.minimum_score)
    if critic.command:
        rows["critic"] = _with_minimum(critic.command, critic.threshold)
    # Printed whole: a dry run is read to check what a goal says.
    yield from nonempty_facts(rows, whole=True)
    yield from facts("checks", map(_validator, goal.validators), whole=True)
    for label, text in checked:
        yield Fact(label, text)
    if goal.unlimited:
        yield UNLIMITED
    yield from _recorded_lines({"agent": goal.agent.model, "judge": judge})
    yield Fact("dry run", "Nothing was run or written.")


def _judge_name(goal: Goal) -> str:
    """Return the program and the model of the judge."""
    is_agents_model = goal.judge.use == "" and goal.judge.model == AGENT_MODEL
    config = goal.agent if is_agents_model else goal.judge
    if config.use in ("", BUILTIN):
        return config.model
    return f"{config.use} {config.model}".strip()


def _validator(spec: ValidatorSpec) -> str:
    """Return a validator with its name, if it has one, and its timeout."""
    limit = "no timeout" if spec.timeout is None else figures.span(spec.timeout)
    command = spec.run or f"python {spec.python}"
    if spec.name in ("", command):
        return f"{command} · {limit}"
    return f"{spec.name}: {command} · {limit}"
