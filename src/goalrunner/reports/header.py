"""The first lines of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from goalrunner.core.events import GoalCreated, Plan, RiskClass, RunStarted
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Line
from goalrunner.reports.listing import waits_for
from goalrunner.reports.text import home_path, model_name

SCRIPTED = "scripted/"
"""Prefix of the name of a model whose replies are recorded."""

_OPTIONS = {"agent": "--model NAME", "judge": "--judge NAME"}
_RECORDED = "{who} played from a recording; tools and checks run for real; for a real model use {option}"


def goal_lines(created: GoalCreated) -> Iterator[Line]:
    """Yield the objective."""
    yield Fact("goal", created.goal.description)


def start_lines(
    started: RunStarted, run_id: str, plan: Plan | None, place: str = "", risk: RiskClass = "low"
) -> Iterator[Line]:
    """Yield workspace, run, models, limits and warnings. `place` is more about the workspace: "git, clean"."""
    workspace = " · ".join(part for part in (home_path(started.workspace), place) if part)
    yield Fact("workspace", workspace, beside=("run", run_id) if run_id else None)
    agent = started.agent_command or model_name(started.models.get("agent", "")) or "a conversation that was passed in"
    judge = model_name(started.models.get("judge", "")) or "none; the validators decide"
    yield Fact("agent", agent, beside=("judge", judge))
    if plan is not None:
        limits = figures.limits(plan.max_iterations, plan.timeout, plan.tokens, plan.cost_usd)
        yield Fact("limits", limits)
        if started.checks:
            yield Fact("checks", started.checks)
        if waits := waits_for(plan.approvals, risk):
            yield Fact("approvals", waits)
        if plan.max_iterations is None and plan.timeout is None and plan.tokens is None and plan.cost_usd is None:
            yield unlimited_line()
    if started.continues:
        yield Fact("continues", f"the conversation of {started.continues}")
    for note in started.notes:
        yield Fact("note", note, tone="warn")
    yield from recorded_lines(started.models)


def unlimited_line() -> Fact:
    """Return the warning at the start of a run without any limit."""
    return Fact(
        "warning",
        "no limit stops this run: no round limit, no timeout, no budget",
        tone="warn",
    )


def recorded_lines(models: Mapping[str, str]) -> Iterator[Line]:
    """Yield a line if replies are played from a recording, with the option for a real model."""
    recorded = [role for role in ("agent", "judge") if models.get(role, "").startswith(SCRIPTED)]
    if not recorded:
        return
    words = "replies of " + " and ".join(recorded) + " are"
    options = " and ".join(_OPTIONS[role] for role in recorded)
    yield Fact("recorded", _RECORDED.format(who=words, option=options))
