"""The suite over the doubles, which misbehave on demand; in a sandbox as well where it concerns processes and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from goalrunner.core.agent_preset import Protocol
from tests.conformance.checks import Check, chosen
from tests.conformance.doubles import Double
from tests.conformance.place import Place
from tests.support.sandboxes import needs_sandbox

pytestmark = pytest.mark.timeout(90)

DOUBLES = [
    Double(protocol, jailed)
    for protocol in get_args(Protocol)
    for jailed in (False, True)
]

IN_A_SANDBOX = (
    "two_rounds_in_one_conversation", "another_process_goes_on", "every_process_is_gone_at_the_end_of_a_round",
    "a_child_in_its_own_group_is_gone_with_the_run", "a_cancelled_run_leaves_no_process", "a_timeout_ends_a_round_that_hangs",
    "a_goal_that_is_killed_leaves_no_process_and_is_resumed", "what_it_leaves_changes_nothing_after_its_round",
    "a_write_outside_of_its_room_is_refused", "a_run_in_a_copy_goes_on_in_it_after_a_kill", "an_agent_that_is_killed_has_failed", "a_large_prompt_arrives_whole",
    "a_program_that_is_not_there_is_named_with_what_mends_it",
)  # fmt: skip
"""What a double in a sandbox shows. What its output says of usage, errors and sessions is read in the same way outside."""

CASES = [
    pytest.param(
        double,
        one,
        id=f"{double.protocol}-{'jailed-' if double.jailed else ''}{one.name}",
        marks=[needs_sandbox] if double.jailed else [],
    )
    for double in DOUBLES
    for one in chosen(double.can)
    if not double.jailed or one.name in IN_A_SANDBOX
]


@pytest.mark.parametrize(("double", "one"), CASES)
async def test_it_conforms(double: Double, one: Check, tmp_path: Path) -> None:
    await one.play(Place(tmp_path, replace(double)))
