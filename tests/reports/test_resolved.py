from __future__ import annotations

from textwrap import dedent

from goalrunner.core.goal import AgentConfig, Budget, Goal, JudgeConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.reports.tables import resolved_text


def test_a_goal_is_printed_with_every_default_filled_in() -> None:
    goal = Goal(
        objective="Make parse() accept\nempty input.",
        success_criteria=("pytest passes", "parse('') returns an empty Document"),
        constraints=("keep the signature",),
        timeout=1_800,
        agent=AgentConfig(model="openai/gpt-5"),
        judge=JudgeConfig(model="agent", minimum_score=0.8),
        budget=Budget(tokens=200_000, cost_usd=2),
        workspace=WorkspaceConfig(path="/src/parser"),
        validators=(
            ValidatorSpec(name="pytest", run="pytest -q"),
            ValidatorSpec(name="style", python="checks:style", timeout=None),
        ),
    )
    assert resolved_text(goal, place="git, clean") == dedent("""\
        goal       Make parse() accept empty input.
        criteria   pytest passes
                   parse('') returns an empty Document
        keeps      keep the signature
        workspace  /src/parser · git, clean
        agent      openai/gpt-5
        judge      openai/gpt-5 · at least 0.80
        limits     10 rounds · 30 min · 200,000 tokens · $2.00
        checks     pytest: pytest -q · 10 min
                   style: python checks:style · no timeout
        dry run    Nothing was run or written.
        """)


def test_what_must_be_said_aloud_is_said() -> None:
    goal = Goal(
        objective="x",
        max_iterations=None,
        agent=AgentConfig(model="scripted//w/words.jsonl"),
        workspace=WorkspaceConfig(path="/w"),
        validators=(ValidatorSpec(run="true"),),
    )
    assert resolved_text(goal).splitlines()[3:] == [
        "judge      none; the validators decide",
        "limits     no round limit · no timeout · no budget",
        "checks     true · 10 min",
        "warning    no limit stops this run: no round limit, no timeout, no budget",
        (
            "recorded   replies of agent are played from a recording; tools and checks run for real; "
            "for a real model use --model NAME"
        ),
        "dry run    Nothing was run or written.",
    ]
