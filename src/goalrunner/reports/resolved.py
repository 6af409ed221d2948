"""The text of `--dry-run`: a goal with all defaults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goalrunner.model.goal import Goal, ValidatorSpec
from goalrunner.reports import figures
from goalrunner.reports.header import recorded_lines, unlimited_line
from goalrunner.reports.line import Fact, Layout, Line, plain
from goalrunner.reports.places import home_path


def resolved_text(
    goal: Goal,
    agent: str = "",
    *,
    place: str = "",
    checked: Sequence[tuple[str, str]] = (),
    columns: int | None = None,
) -> str:
    """Return objective, workspace, models, limits and checks.

    `agent` is an external one with its command, `place` more about the workspace: "git, clean". `checked` are labels and
    texts about the check environment.
    """
    layout = Layout(columns)
    return "".join(plain(layout.rows(line)) for line in _lines(goal, agent, place, checked))


def _lines(goal: Goal, agent: str, place: str, checked: Sequence[tuple[str, str]]) -> Iterator[Line]:
    yield Fact("goal", goal.objective)
    yield from _list("criteria", goal.success_criteria)
    yield from _list("keeps", goal.constraints)
    yield Fact("workspace", " · ".join(part for part in (home_path(goal.workspace.path), place) if part))
    judge = goal.judge.model
    models = {"agent": goal.agent.model, "judge": goal.agent.model if judge == "agent" else judge}
    yield Fact("agent", agent or models["agent"], whole=True)
    yield Fact("judge", _judge(goal, models["judge"]), whole=True)
    budget = goal.budget
    yield Fact("limits", figures.limits(goal.max_iterations, goal.timeout, budget.tokens, budget.cost_usd))
    yield from _list("checks", [_validator(spec) for spec in goal.validators])
    yield from (Fact(label, text) for label, text in checked)
    if goal.unlimited:
        yield unlimited_line()
    yield from recorded_lines(models)
    yield Fact("dry run", "Nothing was run or written.")


def _list(label: str, texts: tuple[str, ...] | list[str]) -> Iterator[Fact]:
    yield from (Fact(label if index == 0 else "", text, whole=True) for index, text in enumerate(texts))


def _judge(goal: Goal, model: str) -> str:
    if not goal.has_judge:
        return "none; the validators decide"
    minimum = goal.judge.minimum_score
    return f"{model} · at least {figures.score(minimum)}" if minimum else model


def _validator(spec: ValidatorSpec) -> str:
    limit = figures.span(spec.timeout) if spec.timeout is not None else "no timeout"
    command = spec.run or f"python {spec.python}"
    return f"{spec.name}: {command} · {limit}" if spec.name else f"{command} · {limit}"
