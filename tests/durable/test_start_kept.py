"""What a run's folder says of its start: gone or changed, it is not taken for a start that said less."""

from __future__ import annotations

import pytest

from goalrunner.core.events import StartKept
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, judge, quote, shell

CHECKED = 'objective = "make done"\nmodel = "MODEL"\nvalidator = "test -e done"\n'
WORKSPACE = 'protect = ["tests/**"]\n'
REPLIES = [
    agent("", shell("echo first")),
    agent("no"),
    agent("", shell("touch done")),
    agent("yes"),
]


def begun(goal: Goal) -> None:
    """A run that was killed in round 1, of a workspace with an ignored folder."""
    goal.write(CHECKED, *REPLIES, workspace=WORKSPACE)
    (goal.work / "libs").mkdir()
    (goal.work / "libs" / "lib.py").write_text("x = 1\n")
    (goal.work / ".gitignore").write_text("libs/\n")
    goal.run(kill=("after", 14))


def kept(goal: Goal) -> dict[str, str]:
    """What the log says was kept of the start, at last."""
    return [
        record.event.files
        for record in goal.records()
        if isinstance(record.event, StartKept)
    ][-1]


def test_the_log_names_what_was_kept_of_the_start_and_a_resumed_run_takes_it(
    goal: Goal,
) -> None:
    begun(goal)
    files = kept(goal)
    assert {
        "ignore",
        "tracked",
        "commit",
        "base.json",
        "scripts.json",
        "git.json",
    } < set(files)
    assert [name for name in files if name.startswith("ignored")]
    assert all((goal.folder / "start" / name).is_file() for name in files)
    assert goal.resume().code == 0


@pytest.mark.parametrize("place", range(4))
def test_what_is_gone_or_changed_refuses_the_run_by_name(
    goal: Goal, place: int
) -> None:
    begun(goal)
    name = sorted(kept(goal))[place]
    path = goal.folder / "start" / name
    text = path.read_bytes()
    path.unlink()
    before = len(goal.records())
    refused = goal.resume()
    assert (refused.code, f"{path} cannot be read" in refused.err) == (4, True), refused
    path.write_bytes(text + b" ")
    refused = goal.resume()
    assert (refused.code, f"{path} differs" in refused.err) == (4, True), refused
    assert len(goal.records()) == before
    path.write_bytes(text)
    assert goal.resume().code == 0


def test_the_rules_of_a_goal_with_a_judge_alone_are_kept_as_well(goal: Goal) -> None:
    text = 'objective = "greet"\nsuccess_criteria = ["it greets"]\nmodel = "MODEL"\njudge = "MODEL"\nmax_iterations = 1\n'
    goal.write(
        text,
        agent("", shell("echo hi")),
        agent("ok"),
        judge(("it greets", [quote("o9", "hello you")])),
    )
    goal.run()
    assert set(kept(goal)) == {"ignore", "tracked", "commit"}
    (goal.folder / "start" / "ignore").unlink()
    refused = goal.resume("--max-iterations", "3")
    assert (refused.code, "ignore cannot be read" in refused.err) == (4, True), refused
