"""What a check is made of is what it was before round 1, whatever an agent did before the run was resumed."""

from __future__ import annotations

import os

import pytest

from goalrunner.events import StartKept
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, shell

OBJECTIVE = 'objective = "make done hold a 3"\nmodel = "MODEL"\nmax_iterations = 1\n'
STRICT = "#!/bin/sh\nexec /usr/bin/grep -qx 3 done\n"
SOFT = "printf 'exit 0\\n' > check.sh"


@pytest.mark.parametrize("protect", ["", 'protect = ["tests/**"]\n'], ids=["without protect", "with protect"])
def test_a_script_that_was_deleted_before_and_is_written_anew_after_is_no_check(goal: Goal, protect: str) -> None:
    text = OBJECTIVE + '[[validators]]\nname = "check"\nrun = "sh check.sh"\n'
    goal.write(
        text, agent("", shell("rm check.sh")), agent("yes"), agent("", shell(SOFT)), agent("yes"), workspace=protect
    )
    (goal.work / "check.sh").write_text(STRICT)
    assert goal.run().code == 1
    ended = goal.resume("--max-iterations", "2")
    assert (ended.code, 'check.sh was changed; named by validator "check"' in ended.out) == (1, True), ended


def test_a_program_of_the_workspace_that_was_deleted_before_is_missed_after(goal: Goal) -> None:
    text = OBJECTIVE + '[[validators]]\nname = "check"\nrun = "grep -q 3 done"\n'
    cheat = shell("rm -f tools/grep; echo 1234 > done; date +%N >> note")
    goal.write(text, agent("", cheat), agent("yes"), agent("", cheat), agent("yes"))
    tool = goal.work / "tools" / "grep"
    tool.parent.mkdir()
    tool.write_text(STRICT)
    tool.chmod(0o755)
    env = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    assert goal.run(env=env).code == 1
    ended = goal.resume("--max-iterations", "2", env=env)
    assert (ended.code, 'tools/grep was deleted; starts validator "check"' in ended.out) == (1, True), ended


def test_a_script_that_the_agent_was_to_write_is_still_its_work_after(goal: Goal) -> None:
    text = OBJECTIVE + '[[validators]]\nname = "check"\nrun = "sh check.sh && test -e done"\n'
    goal.write(text, agent("", shell(SOFT)), agent("yes"), agent("", shell("touch done")), agent("yes"))
    assert goal.run().code == 1
    assert goal.resume("--max-iterations", "2").code == 0


def test_what_stands_there_of_the_start_is_taken_whole_or_refused(goal: Goal) -> None:
    goal.write(OBJECTIVE + 'validator = "sh check.sh"\n', agent("", shell("date +%N > note")), agent("yes"))
    (goal.work / "check.sh").write_text(STRICT)
    assert goal.run().code == 1
    kept = goal.folder / "start" / "ruler.json"
    kept.write_text("[]")
    refused = goal.resume("--max-iterations", "2")
    assert (refused.code, f"{kept} is damaged" in refused.err) == (4, True), refused


def test_it_is_kept_before_round_1_where_no_baseline_is_taken(goal: Goal) -> None:
    text = OBJECTIVE + '[[validators]]\npython = "own:fine"\n[[validators]]\nname = "check"\nrun = "sh check.sh"\n'
    goal.write(text, agent("", shell("echo")), agent("yes"), workspace='link = ["libs"]\n')
    (goal.work / "libs").mkdir()
    (goal.work / "own.py").write_text("def fine(response, agent):\n    return True\n")
    assert goal.run().code == 1
    events = [record.event for record in goal.records()]
    before = events[: [event.type for event in events].index("round_started")]
    (kept,) = (event.files for event in before if isinstance(event, StartKept))
    assert {"ruler.json", "programs.json"} < set(kept)
    assert [name for name in kept if name.startswith("links/")]
