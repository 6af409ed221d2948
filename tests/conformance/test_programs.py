"""The suite over the real programs, each at a scripted server; what is not installed is skipped aloud."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from goalrunner.core.agent_preset import Protocol
from tests.conformance.checks import Check, chosen
from tests.conformance.installed import NAMES, missing, no_keys
from tests.conformance.place import Place
from tests.conformance.program import Program
from tests.support.sandboxes import needs_sandbox

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

IN_A_SANDBOX = {
    "two_rounds_in_one_conversation",
    "another_process_goes_on",
    "a_goal_that_is_killed_leaves_no_process_and_is_resumed",
    "a_wrong_key_is_named_with_what_mends_it",
    "a_write_outside_of_its_room_is_refused",
    "a_run_in_a_copy_goes_on_in_it_after_a_kill",
}
"""What a sandbox could break of what works without. The doubles play all of it."""

ALWAYS = {
    "command": IN_A_SANDBOX
    | {
        "a_cancelled_run_leaves_no_process",
        "a_run_in_a_copy_goes_on_in_it_after_a_kill",
        "an_agent_that_is_killed_has_failed",
        "a_large_prompt_arrives_whole",
        "every_process_is_gone_at_the_end_of_a_round",
    },
    "acp": {
        "two_rounds_in_one_conversation",
        "another_process_goes_on",
        "a_wrong_key_is_named_with_what_mends_it",
        "usage_of_each_round_is_added_up",
        "a_cancelled_run_leaves_no_process",
    },
    "sandbox": {
        "two_rounds_in_one_conversation",
        "a_write_outside_of_its_room_is_refused",
    },
}
"""What each program could do otherwise than its double. CI leaves out the others, which are `slow`.

What it reports is in `test_reports.py`.
"""

ALL = [
    (Program(name, protocol, jailed), one)
    for name in NAMES
    for protocol in get_args(Protocol)
    for jailed in (False, True)
    for one in chosen(Program(name, protocol, jailed).can)
    if not jailed or one.name in IN_A_SANDBOX
]


def _marks(program: Program, one: Check) -> list[pytest.MarkDecorator]:
    always = ALWAYS["sandbox" if program.jailed else program.protocol]
    return [
        *([needs_sandbox] if program.jailed else []),
        *([] if one.name in always else [pytest.mark.slow]),
    ]


CASES = [
    pytest.param(
        program, one, id=f"{program.told_as}-{one.name}", marks=_marks(program, one)
    )
    for program, one in ALL
]


@pytest.mark.parametrize(("program", "one"), CASES)
async def test_it_conforms(
    program: Program, one: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := missing(program.preset, program.protocol):
        pytest.skip(why)
    no_keys(monkeypatch)
    with program:
        await one.play(Place(tmp_path, program))
