"""The critic: what its table and its answers may be, when it is asked, and what follows from its score."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from goalrunner.core import events
from goalrunner.core.critic import (
    LONGEST_FEEDBACK,
    CriticConfig,
    Critique,
    UnusableCritiqueError,
    critique_of,
    last_line_critique,
)
from goalrunner.core.decision import (
    AskJudge,
    RunRound,
    ScoreRound,
    Validate,
    decide,
    proven,
)
from goalrunner.core.events import CriticRule, Event, RunRules
from goalrunner.core.goal import Goal
from goalrunner.core.observation import Snapshot
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.verdict import ValidatorResult
from goalrunner.testing import unsatisfied
from tests.support.folding import state_after

RULE = CriticRule(name="critic.sh", threshold=0.7, max_refinements=1)
BOTH = RunRules(validators=("tests",), has_judge=True, critic=RULE)
JUDGED = RunRules(has_judge=True, critic=RULE)

ROUND = events.RoundStarted(round=1, prompt="first")
WORKED = (ROUND, events.RoundFinished(round=1))
LOW = events.CritiqueFinished(round=1, score=0.4, feedback="name the units")
HIGH = events.CritiqueFinished(round=1, score=0.7, feedback="fine")
BROKEN = events.CritiqueFinished(round=1, problem="exit 1")
REFINED = (
    LOW,
    events.RefinementStarted(round=1, number=1),
    events.RoundFinished(round=1),
)
GREEN = events.ValidatorsFinished(
    round=1, results=(ValidatorResult(name="tests", passed=True),)
)

REFINEMENT = RunRound(
    "refine", 1, RULE.prompt(Critique(score=0.4, feedback="name the units"))
)


@pytest.mark.parametrize(
    ("plan", "happened", "step"),
    [
        pytest.param(BOTH, WORKED, ScoreRound(1), id="a round has ended"),
        pytest.param(
            BOTH,
            (*WORKED, events.CritiqueStarted(round=1)),
            ScoreRound(1),
            id="a critique was interrupted",
        ),
        pytest.param(BOTH, (*WORKED, LOW), REFINEMENT, id="below the threshold"),
        pytest.param(BOTH, (*WORKED, HIGH), Validate(1), id="at the threshold"),
        pytest.param(JUDGED, (*WORKED, HIGH), AskJudge(1), id="without validators"),
        pytest.param(BOTH, (*WORKED, BROKEN), Validate(1), id="no usable score"),
        pytest.param(
            BOTH,
            (*WORKED, LOW, REFINED[1]),
            REFINEMENT,
            id="a refinement whose prompt was not sent",
        ),
        pytest.param(
            BOTH, (*WORKED, *REFINED), ScoreRound(1), id="a refinement has ended"
        ),
        pytest.param(
            BOTH,
            (*WORKED, *REFINED, LOW),
            Validate(1),
            id="the refinements are used up",
        ),
        pytest.param(
            BOTH.model_copy(
                update={"critic": RULE.model_copy(update={"max_refinements": 2})}
            ),
            (*WORKED, *REFINED, LOW),
            REFINEMENT,
            id="a second refinement",
        ),
        pytest.param(
            BOTH.model_copy(
                update={"critic": RULE.model_copy(update={"max_refinements": 0})}
            ),
            (*WORKED, LOW),
            Validate(1),
            id="no refinement is allowed",
        ),
        pytest.param(
            BOTH,
            (ROUND, events.BlockReported(reason="no network"), WORKED[1]),
            Validate(1),
            id="the agent says that it is blocked",
        ),
        pytest.param(
            BOTH.model_copy(update={"tokens": 10}),
            (
                *WORKED,
                events.UsageRecorded(account="agent", usage=Usage(input_tokens=20)),
            ),
            Validate(1),
            id="a spent budget ends no round before its checks",
        ),
        pytest.param(
            BOTH, (*WORKED, HIGH, GREEN), AskJudge(1), id="the validators are green"
        ),
    ],
)
def test_what_follows(
    plan: RunRules, happened: tuple[Event, ...], step: object
) -> None:
    assert decide(state_after(plan, *happened)) == step


def test_the_next_round_is_scored_again() -> None:
    red = events.ValidatorsFinished(
        round=1, results=(ValidatorResult(name="tests", passed=False),)
    )
    second = (
        events.RoundStarted(round=2, prompt="retry"),
        events.RoundFinished(round=2),
    )
    state = state_after(BOTH, *WORKED, *REFINED, LOW, red, *second)
    assert (decide(state), state.refinements, state.critique) == (
        ScoreRound(2),
        0,
        None,
    )


def test_a_round_that_is_checked_again_is_not_scored_again() -> None:
    changed = events.WorkspaceChanged(
        paths=("a",), snapshot=Snapshot(id="b" * 64, tree="b" * 64)
    )
    missing = events.VerdictRecorded(round=1, verdict=unsatisfied("more"))
    assert decide(
        state_after(BOTH, *WORKED, HIGH, GREEN, missing, changed)
    ) == Validate(1)


def test_a_score_proves_nothing() -> None:
    perfect = events.CritiqueFinished(round=1, score=1.0, feedback="complete")
    state = state_after(JUDGED, *WORKED, perfect)
    assert not proven(state)
    assert (state.verdict, state.memory.evidence_refs, state.attempts) == (None, (), ())


def test_a_refinement_belongs_to_its_round() -> None:
    started = events.CritiqueStarted(round=1)
    state = state_after(BOTH, *WORKED, started, *REFINED, started, HIGH, GREEN)
    assert (state.round, state.iterations) == (1, 0)
    assert "critique-1" in state.memory.completed_steps


def test_an_interrupted_call_is_attributed_to_the_critic_only_if_it_is_a_model() -> (
    None
):
    def awaiting(**models: str) -> str | None:
        started = events.RunStarted(workspace="/w", version="0", models=models)
        state: RunState = state_after(
            BOTH, started, *WORKED, events.CritiqueStarted(round=1)
        )
        return state.awaiting

    assert awaiting(agent="a", critic="b") == "critic"
    assert awaiting(agent="a") is None


@pytest.mark.parametrize(
    ("value", "critique"),
    [
        (0, Critique(score=0.0)),
        (0.25, Critique(score=0.25)),
        (1, Critique(score=1.0)),
        (
            {"score": 0.4, "feedback": " name the units\n"},
            Critique(score=0.4, feedback="name the units"),
        ),
        ({"score": 0.4, "feedback": None}, Critique(score=0.4)),
        (
            SimpleNamespace(score=0.4, feedback="more"),
            Critique(score=0.4, feedback="more"),
        ),
    ],
)
def test_answers_that_are_scores(value: object, critique: Critique) -> None:
    assert critique_of(value) == critique


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            True,
            "0.9",
            "good",
            -0.1,
            1.1,
            float("nan"),
            float("inf"),
            10**400,
            [0.5],
            {},
            object(),
        ),
        {"feedback": "x"},
        {"score": "0.9"},
        {"score": True},
        {"score": 0.9, "feedback": 3},
        {"score": 0.9, "feedbak": "x"},
    ],
)
def test_answers_that_are_none(value: object) -> None:
    with pytest.raises(UnusableCritiqueError):
        critique_of(value)


def test_long_feedback_is_shortened_in_the_middle() -> None:
    said = critique_of(
        {"score": 0.1, "feedback": "a" * LONGEST_FEEDBACK + "b" * LONGEST_FEEDBACK}
    ).feedback
    assert said.startswith("aaa")
    assert said.endswith("bbb")
    assert f"[... {LONGEST_FEEDBACK:,} characters left out ...]" in said


@pytest.mark.parametrize(
    ("output", "critique"),
    [
        ("0.5\n", Critique(score=0.5)),
        (
            'checking ...\n0.9\n{"score": 0.4, "feedback": "x"}\n\n',
            Critique(score=0.4, feedback="x"),
        ),
    ],
)
def test_the_last_line_of_an_output_is_the_score(
    output: str, critique: Critique
) -> None:
    assert last_line_critique(output) == critique


@pytest.mark.parametrize(
    "output", ["", "\n", "0.9\ndone\n", "score: 0.9", "NaN", "{", '"0.9"', "[" * 5_000]
)
def test_an_output_without_a_score_is_no_critique(output: str) -> None:
    with pytest.raises(UnusableCritiqueError):
        last_line_critique(output)


@pytest.mark.parametrize(
    "table",
    [
        "openai/gpt-5-mini",
        {
            "model": "openai/gpt-5-mini",
            "api_base": "http://localhost:1",
            "params": {"seed": 1},
        },
        {"run": "./critic.sh", "threshold": 0, "max_refinements": 3},
        {"python": "checks:score"},
        {},
    ],
)
def test_tables_that_are_accepted(table: Any) -> None:
    goal = Goal(objective="x", critic=table)
    assert Goal.model_validate(goal.model_dump()) == goal


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {"model": "a/b", "run": "x"},
            "one of model, run and python; remove model or run",
        ),
        ({"run": "x", "python": "a:b"}, "one of model, run and python"),
        ({"threshold": 0.5}, "a critic needs model"),
        ({"run": "x", "api_base": "http://localhost:1"}, "api_base is for a model"),
        ({"run": "x", "threshold": 1.5}, "threshold"),
        ({"run": "x", "max_refinements": -1}, "max_refinements"),
    ],
)
def test_tables_that_are_refused(table: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CriticConfig.model_validate(table)
    assert words in str(caught.value)
