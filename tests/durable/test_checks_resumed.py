"""What a check is made of is what it was before round 1, whatever an agent did before the run was resumed."""

from __future__ import annotations

import pytest

from goalrunner.core.events import StartKept
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, shell

OBJECTIVE = 'objective = "make done hold a 3"\nmodel = "MODEL"\nmax_iterations = 1\n'
STRICT = "#!/bin/sh\nexec /usr/bin/grep -qx 3 done\n"
SOFT = "printf 'exit 0\\n' > check.sh"


@pytest.mark.parametrize(
    ("protect", "code"),
    [("", 3), ('protect = ["tests/**"]\n', 1)],
    ids=["without protect", "with protect"],
)
def test_a_script_that_was_deleted_before_and_is_written_anew_after_is_no_check(
    goal: Goal, protect: str, code: int
) -> None:
    """Without protect a person may accept the new one; on its own it counts for nothing."""
    text = OBJECTIVE + '[[validators]]\nname = "check"\nrun = "sh check.sh"\n'
    goal.write(
        text,
        agent("", shell("rm check.sh")),
        agent("yes"),
        agent("", shell(SOFT)),
        agent("yes"),
        workspace=protect,
    )
    (goal.work / "check.sh").write_text(STRICT)
    assert goal.run().code == 1
    ended = goal.resume("--max-iterations", "2")
    assert (
        ended.code,
        'check.sh (changed; named by validator "check")' in ended.out,
    ) == (code, True), ended
    asked = [
        record.event
        for record in goal.records()
        if record.event.type == "approval_requested"
    ]
    assert [event.action for event in asked] == (
        ["checks changed: check.sh"] if code == 3 else []
    )


def test_a_script_that_the_agent_was_to_write_is_still_its_work_after(
    goal: Goal,
) -> None:
    text = (
        OBJECTIVE
        + '[[validators]]\nname = "check"\nrun = "sh check.sh && test -e done"\n'
    )
    goal.write(
        text,
        agent("", shell(SOFT)),
        agent("yes"),
        agent("", shell("touch done")),
        agent("yes"),
    )
    assert goal.run().code == 1
    assert goal.resume("--max-iterations", "2").code == 0


def test_what_stands_there_of_the_start_is_taken_whole_or_refused(goal: Goal) -> None:
    goal.write(
        OBJECTIVE + 'validator = "sh check.sh"\n',
        agent("", shell("date +%N > note")),
        agent("yes"),
    )
    (goal.work / "check.sh").write_text(STRICT)
    assert goal.run().code == 1
    kept = goal.folder / "start" / "scripts.json"
    kept.write_text("[]")
    refused = goal.resume("--max-iterations", "2")
    assert (refused.code, f"{kept} differs from" in refused.err) == (4, True), refused


@pytest.mark.parametrize(
    "beside", ["", '[[validators]]\nname = "check"\nrun = "sh check.sh"\n']
)
def test_it_is_kept_before_round_1_where_a_callable_waits_for_a_response(
    goal: Goal, beside: str
) -> None:
    text = OBJECTIVE + '[[validators]]\npython = "own:fine"\n' + beside
    goal.write(text, agent("", shell("echo")), agent("yes"))
    (goal.work / "own.py").write_text("def fine(response, agent):\n    return False\n")
    assert goal.run().code == 1
    events = [record.event for record in goal.records()]
    before = events[: [event.type for event in events].index("round_started")]
    assert ("baseline_taken" in [event.type for event in before]) == bool(beside)
    kept = {
        name.split("/")[0]
        for event in before
        if isinstance(event, StartKept)
        for name in event.files
    }
    assert {"scripts.json", "git.json", "ignored"} <= kept
