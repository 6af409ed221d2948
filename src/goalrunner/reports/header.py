"""The first lines of a run: what is to be done, where, by whom, and where it stops. Owns the header; prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from goalrunner.events import GoalCreated, Plan, RiskClass, RunStarted
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Line
from goalrunner.reports.places import home_path, model_name
from goalrunner.reports.waiting import waits_for

SCRIPTED = "scripted/"
"""How the name of a model begins whose replies are recorded."""

_OPTIONS = {"agent": "--model NAME", "judge": "--judge NAME"}
_RECORDED = "{who} recorded; tools and checks really run; use a real model with {option}"


def goal_lines(created: GoalCreated) -> Iterator[Line]:
    """The objective."""
    yield Fact("goal", created.goal.description)


def start_lines(
    started: RunStarted, run_id: str, plan: Plan | None, place: str = "", risk: RiskClass = "low"
) -> Iterator[Line]:
    """Workspace, run, models, limits and what must be said aloud. `place` is more of the workspace: "git, clean"."""
    workspace = " · ".join(part for part in (home_path(started.workspace), place) if part)
    yield Fact("workspace", workspace, beside=("run", run_id) if run_id else None)
    agent = started.agent_command or model_name(started.models.get("agent", "")) or "a conversation that was passed in"
    judge = model_name(started.models.get("judge", "")) or "none, the validators decide"
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
    """The warning that a run without any limit begins with."""
    return Fact("warning", "nothing stops this run but success: no round limit, no timeout, no budget", tone="warn")


def recorded_lines(models: Mapping[str, str]) -> Iterator[Line]:
    """One line where the words of a model are recorded, with the option that uses a real one."""
    recorded = [role for role in ("agent", "judge") if models.get(role, "").startswith(SCRIPTED)]
    if not recorded:
        return
    words = "the words of " + " and ".join(recorded) + " are"
    options = " and ".join(_OPTIONS[role] for role in recorded)
    yield Fact("recorded", _RECORDED.format(who=words, option=options))
