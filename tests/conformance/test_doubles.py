"""The suite over the doubles, which misbehave on demand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.conformance.checks import Check, chosen
from tests.conformance.doubles import ACP, COMMAND, Double
from tests.conformance.place import Place

pytestmark = pytest.mark.timeout(90)

DOUBLES = [COMMAND, *([ACP] if importlib.util.find_spec("goalrunner.agents.acp") else [])]

CASES = [
    pytest.param(double, one, id=f"{double.protocol}-{one.name}") for double in DOUBLES for one in chosen(double.can)
]


@pytest.mark.parametrize(("double", "one"), CASES)
async def test_it_conforms(double: Double, one: Check, tmp_path: Path) -> None:
    await one.play(Place(tmp_path, double))
