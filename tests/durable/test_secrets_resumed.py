"""Secrets that stand in a goal file: never kept, and taken from there again where the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.durable_goal import Goal
from tests.support.recordings import agent, shell
from tests.support.tokens import some

SECRET = "hunter2-hunter2"
TOKEN = "ghp_" + some(36)
TEXT = f"""\
objective = "make done with {TOKEN}"
model = "MODEL"
validator = 'test "$(cat done)" = {SECRET}'
max_iterations = 1
[agent]
env = {{ DEPLOY_PASSWORD = "{SECRET}" }}
"""
REPLIES = [
    agent("", shell("echo")),
    agent("no"),
    agent("", shell('echo "$DEPLOY_PASSWORD" > done')),
    agent("yes"),
]
MORE = ("--max-iterations", "3")


def written(goal: Goal) -> Path:
    """The goal file, of a run that was capped."""
    goal.write(TEXT, *REPLIES)
    assert goal.run().code == 1
    return goal.root / "goal.toml"


def test_a_resumed_run_has_the_secrets_of_its_goal_file_again_and_keeps_none(
    goal: Goal,
) -> None:
    written(goal)
    done = goal.resume(*MORE)
    assert (done.code, (goal.work / "done").read_text().strip()) == (0, SECRET), done
    for path in (path for path in goal.folder.rglob("*") if path.is_file()):
        assert not [
            word for word in (SECRET, TOKEN) if word.encode() in path.read_bytes()
        ], path


def test_what_a_person_says_of_a_run_holds_no_secret_of_its_goal_file(
    goal: Goal,
) -> None:
    written(goal)
    assert goal.command("cancel", "--yes", "--reason", f"it told {SECRET}").code == 0
    assert "it told [redacted:agent.env.DEPLOY_PASSWORD]" in goal.outcome()["message"]
    for path in (path for path in goal.folder.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes(), path


def test_an_agent_of_the_goals_own_has_its_secret_again(goal: Goal) -> None:
    text = f"""\
objective = "make done"
agent = "mine"
validator = "test -e done"
max_iterations = 1
[agents.mine]
argv = ["sh", "-c", 'test "$MINE_TOKEN" = {SECRET} && test -e again && touch done; touch again; echo said']
env = {{ MINE_TOKEN = "{SECRET}" }}
"""
    goal.write(text)
    assert goal.run().code == 1
    done = goal.resume(*MORE)
    assert done.code == 0, done


def test_an_agent_of_the_users_own_has_its_secret_again_without_any_goal_file(
    goal: Goal,
) -> None:
    file = goal.root / "config" / "goal" / "agents" / "mine.toml"
    file.parent.mkdir(parents=True)
    text = f"""\
argv = ["sh", "-c", 'test "$MINE_TOKEN" = {SECRET} && test -e again && touch done; touch again; echo said']
env = {{ MINE_TOKEN = "{SECRET}" }}
"""
    file.write_text(text)
    env = {"XDG_CONFIG_HOME": str(goal.root / "config")}
    options = (
        "--objective",
        "make done",
        "--validator",
        "test -e done",
        "--agent",
        "mine",
        "--max-iterations",
        "1",
    )
    began = goal.forks.goal("run", *options, cwd=goal.work, env=env)
    assert began.code == 1, began
    file.unlink()
    run_id = goal.folder.name
    refused = goal.resume(run_id, *MORE, env=env)
    assert (refused.code, "cannot be read again" in " ".join(refused.err.split())) == (
        2,
        True,
    ), refused
    file.write_text(text)
    done = goal.resume(run_id, *MORE, env=env)
    assert done.code == 0, done


def test_options_that_were_laid_over_the_file_are_no_hindrance(goal: Goal) -> None:
    goal.write(TEXT.replace('model = "MODEL"', ""), *REPLIES)
    assert goal.run("--model", f"scripted/{goal.root / 'models.jsonl'}").code == 1
    done = goal.resume(*MORE)
    assert done.code == 0, done


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "make done with",
            "do nothing with",
            "goal.toml was changed after the run began",
        ),
        (f"= {SECRET}", f"= {SECRET}||true", "Error: validators[0].run in"),
        (f"= {SECRET}", "= #", "Error: validators[0].run in"),
        (f"DEPLOY_PASSWORD = {SECRET!r}", "OTHER = 1", "goal.toml:6"),
        ("objective", "objectives", "cannot be read again"),
    ],
)
def test_a_goal_file_without_the_secret_is_refused_with_its_place(
    goal: Goal, old: str, new: str, said: str
) -> None:
    path = written(goal)
    text = path.read_text()
    old = old.replace("'", '"')
    assert old in text
    path.write_text(text.replace(old, new))
    before = len(goal.records())
    refused = goal.resume(*MORE)
    assert (refused.code, said in " ".join(refused.err.split())) == (2, True), refused
    assert len(goal.records()) == before
    path.write_text(text)
    assert goal.resume(*MORE).code == 0


def test_without_its_goal_file_the_run_is_refused(goal: Goal) -> None:
    written(goal).unlink()
    refused = goal.resume(*MORE)
    assert (
        refused.code,
        "objective" in refused.err,
        "no such file" in refused.err,
    ) == (2, True, True), refused


def test_a_run_with_a_secret_that_stands_in_no_file_cannot_be_resumed(
    goal: Goal,
) -> None:
    goal.write(TEXT.replace(TOKEN, "nothing"), *REPLIES)
    goal.run("--objective", f"deploy with {TOKEN}")
    refused = goal.resume(*MORE)
    assert (
        refused.code,
        "changed after the run began" in " ".join(refused.err.split()),
    ) == (2, True), refused
