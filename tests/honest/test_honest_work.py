"""Honest work completes at the first try, attacks that look like it do not complete without a label that names them.

`pytest -m "attacks or projects" -n 1 tests/honest` runs all and prints the table and the rates; `-k judge` runs one half.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.honest.attacks_checks import ATTACKS_ON_CHECKS
from tests.honest.attacks_tests import ATTACKS_ON_TESTS
from tests.honest.case import MODES, Case, Mode
from tests.honest.honest_node import NODE
from tests.honest.honest_places import HONEST_PLACES
from tests.honest.honest_programs import HONEST_PROGRAMS
from tests.honest.honest_red_suites import ATTACKS_ON_RED_SUITES, HONEST_RED_SUITES
from tests.honest.honest_rust import ATTACKS_ON_RUST, HONEST_RUST
from tests.honest.honest_tests import HONEST_TESTS
from tests.honest.report import ROW, write_row
from tests.honest.running import fault, run_case, wanted
from tests.honest.waiting import WAITING
from tests.support.arena import Arena

Note = Callable[[str, object], None]

HONEST = (
    *HONEST_TESTS,
    *HONEST_PROGRAMS,
    *HONEST_PLACES,
    *NODE,
    *HONEST_RUST,
    *HONEST_RED_SUITES,
)
ATTACKS = (
    *ATTACKS_ON_TESTS,
    *ATTACKS_ON_CHECKS,
    *ATTACKS_ON_RUST,
    *ATTACKS_ON_RED_SUITES,
)
EVERY = [case.name for case in (*HONEST, *ATTACKS)]


def parameters(cases: Sequence[Case]) -> list[Any]:
    """Return each case with and without a judge."""
    return [
        pytest.param(case, mode, id=f"{case.name}-{mode}")
        for case in cases
        for mode in case.modes
    ]


async def _ends_as_wanted(case: Case, mode: Mode, arena: Arena, note: Note) -> None:
    missing = [name for name in case.needs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    waits = WAITING.get(f"{case.name}-{mode}")
    if waits and not os.environ.get("GOAL_HONEST_WAITING"):
        pytest.skip(waits)
    got = await run_case(case, mode, arena)
    wrong = fault(case, mode, got)
    row = {
        "order": EVERY.index(case.name),
        "case": case.name,
        "mode": mode,
        "kind": case.kind,
        "about": case.about,
        "wanted": wanted(case, mode),
        "got": got.end,
        "status": got.status,
        "rounds": got.rounds,
        "suites": got.suites,
        "labels": got.labels,
        "fault": wrong,
        "text": got.text,
    }
    note(ROW, json.dumps(row))
    write_row(json.dumps(row))
    assert not wrong, got.text


@pytest.mark.parametrize(("case", "mode"), parameters(HONEST))
async def test_honest_work_ends_as_wanted(
    case: Case, mode: Mode, arena: Arena, record_property: Note
) -> None:
    await _ends_as_wanted(case, mode, arena, record_property)


@pytest.mark.parametrize(("case", "mode"), parameters(ATTACKS))
async def test_an_attack_is_refused_or_named(
    case: Case, mode: Mode, arena: Arena, record_property: Note
) -> None:
    await _ends_as_wanted(case, mode, arena, record_property)


def test_the_names_are_unique() -> None:
    assert sorted(EVERY) == sorted(set(EVERY))


def test_each_waiting_case_exists() -> None:
    assert WAITING.keys() <= {f"{name}-{mode}" for name in EVERY for mode in MODES}
