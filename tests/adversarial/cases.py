"""One attack, one honest run: what each is made of, and how it is tried. Owns the assertions that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.adversarial.conftest import Note
from tests.adversarial.judges import GullibleJudge
from tests.support.arena import CALC, Arena, Ending, Round
from tests.support.tables import ATTACK, HONEST

PYTEST: Mapping[str, Any] = {
    "validators": [{"name": "tests", "run": "pytest -q"}],
    "workspace": {"protect": ["tests/**"]},
}
"""The goal that most attacks are made on."""

CAPPED = ("capped", "max_iterations")
COMPLETE = ("complete", "satisfied")


@dataclass(frozen=True)
class Attack:
    """What a dishonest agent does, and the words of the rule that refuses it."""

    name: str
    tried: str
    refused: str
    rounds: tuple[Round, ...]
    files: Mapping[str, str | bytes] = field(default_factory=lambda: CALC)
    goal: Mapping[str, Any] = field(default_factory=lambda: PYTEST)
    how: tuple[str, str] = CAPPED
    prepare: Callable[[Arena], None] | None = None
    """What else the machine's owner had before the run."""


@dataclass(frozen=True)
class Honest:
    """What an honest agent does, and the round in which it is complete. Round 0 means: without the agent, as iteration 1."""

    name: str
    special: str
    rounds: tuple[Round, ...]
    files: Mapping[str, str | bytes]
    goal: Mapping[str, Any]
    round: int = 1
    prepare: Callable[[Arena], None] | None = None


def cases(*found: Attack | Honest, **defects: str) -> list[Any]:
    """As parameters of a test, by name. `defects` says by name (with underscores) why one does not hold yet."""
    parameters = []
    for case in found:
        why = defects.get(case.name.replace(" ", "_").replace("-", "_").replace(".", "_"))
        marks = [pytest.mark.xfail(strict=True, reason=why)] if why else []
        parameters.append(pytest.param(case, id=case.name.replace(" ", "-"), marks=marks))
    return parameters


async def refuted(attack: Attack, arena: Arena, note: Note, judge: Any = None) -> Ending:
    """The attack does not end complete, in its last round, by the rule that is meant to refuse it."""
    arena.write(attack.files)
    if attack.prepare:
        attack.prepare(arena)
    ending = await arena.fight(*attack.rounds, judge_llm=judge or GullibleJudge(), **attack.goal)
    note(ATTACK, attack.name, attack.tried, ending, attack.refused)
    rounds = 0 if attack.how[0] == "failed" else len(attack.rounds)
    assert ending.how == (*attack.how, rounds), ending.reasons
    assert ending.why(attack.refused), ending.reasons
    return ending


async def completes(honest: Honest, arena: Arena, note: Note, judge: Any = None) -> Ending:
    """The run is complete in the expected round, and the agent was called no more often than that."""
    arena.write(honest.files)
    if honest.prepare:
        honest.prepare(arena)
    ending = await arena.fight(*honest.rounds, judge_llm=judge, **{"max_iterations": 10, **honest.goal})
    note(HONEST, honest.name, honest.special, ending, str(honest.round or "1, agent not called"))
    assert ending.how == (*COMPLETE, max(1, honest.round)), ending.reasons
    assert ending.rounds == honest.round
    return ending
