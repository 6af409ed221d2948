"""The suite over the real programs, each at a scripted server; what is not installed is skipped aloud."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from goalrunner.model.preset import Protocol
from goalrunner.presets import find
from tests.conformance.checks import Check, chosen
from tests.conformance.installed import NAMES, missing, no_keys
from tests.conformance.place import Place
from tests.conformance.program import Program

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

PROGRAMS = [Program(name, protocol) for name in NAMES for protocol in get_args(Protocol)]

CASES = [
    pytest.param(program.name, program.protocol, one, id=f"{program.name}-{program.protocol}-{one.name}")
    for program in PROGRAMS
    for one in chosen(program.can)
]


@pytest.mark.parametrize(("name", "protocol", "one"), CASES)
async def test_it_conforms(
    name: str, protocol: Protocol, one: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := missing(find(name, {}, {}), protocol):
        pytest.skip(why)
    no_keys(monkeypatch)
    with Program(name, protocol) as program:
        await one.play(Place(tmp_path, program))
