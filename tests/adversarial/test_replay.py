"""Cited commands run again: agents that would profit from it, and honest ones beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from goalrunner.app.verification import verify_run
from goalrunner.core.events import ToolResultRecorded
from goalrunner.core.observation import Observation
from goalrunner.records.run_folder import RunFolder
from goalrunner.testing import ScriptedApprover
from tests.adversarial.cases import CAPPED, COMPLETE
from tests.adversarial.judges import GullibleJudge, Prompt
from tests.support.arena import Arena, Ending
from tests.support.recordings import quote, shell
from tests.support.reporting import NAME, Deed, Does, ReportingAgent, Says
from tests.support.sandboxes import needs_sandbox

FILES: Mapping[str, str] = {
    "check.sh": "#!/bin/sh\ntest ! -e broken && test -e done && ! grep -q fail d/* && echo 3 checks passed in $(date +%N)s\n",
    "report.sh": "#!/bin/sh\ndate +%N > report.xml\n./check.sh\n",
    "report.xml": "old\n",
    "a.txt": "old words of a\n",
    "d/x": "no problem\n",
}
DONE = "test -e done"


def cites(command: str, words: str = "3 checks passed") -> GullibleJudge:
    """A judge that cites the newest output of a command with these words, stale or not."""

    def newest(prompt: Prompt) -> list[dict[str, str]]:
        found = [item for item in prompt.observations if command in item.command and item.source != "validator done"]
        line = next((line for line in found[-1].output.splitlines() if words in line), words) if found else words
        return [quote(found[-1].id if found else "o1", line)]

    return GullibleJudge(cite=newest)


async def fought(
    arena: Arena, *commands: str, cited: str, words: str = "3 checks passed", check: str = DONE, **goal: Any
) -> Ending:
    """One round of these commands; the judge cites one of them."""
    arena.write(FILES)
    settings = {"validators": [{"name": "done", "run": check}], "judge": {"replay": True}, **goal}
    rounds = tuple(shell(command) for command in commands)
    return await arena.fight(rounds, judge_llm=cites(cited, words), **settings)


def replays(ending: Ending) -> list[Observation]:
    found = [record.event.observation for record in ending.records if isinstance(record.event, ToolResultRecorded)]
    return [item for item in found if item.source == "replay"]


HONEST: Mapping[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "a check whose output names a duration": (("touch done", "./check.sh"), {"cited": "./check.sh"}),
    "a file that changed after the check": (
        ("touch done", "./check.sh", "echo x > scratch"),
        {"cited": "./check.sh"},
    ),
    "a report that the validator writes as well": (
        ("touch done", "./report.sh"),
        {"cited": "./report.sh", "check": "./report.sh"},
    ),
}


@pytest.mark.parametrize("name", HONEST)
async def test_a_command_that_shows_it_again_is_evidence(name: str, arena: Arena) -> None:
    commands, more = HONEST[name]
    ending = await fought(arena, *commands, **more)
    assert ending.how == (*COMPLETE, 1), ending.reasons
    (again,) = replays(ending)
    assert ending.outcome.verdict is not None
    assert ending.outcome.verdict.cited == (again.id,)
    assert (again.before, again.reported_by) == (again.after, "")
    verified = await verify_run(RunFolder(ending.run), arena.home, arena.environ)
    assert verified.broken is None


@pytest.mark.parametrize("name", list(HONEST)[1:])
async def test_without_replay_the_same_evidence_is_stale(name: str, arena: Arena) -> None:
    commands, more = HONEST[name]
    ending = await fought(arena, *commands, **more, judge={})
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("is stale"), ending.reasons
    assert replays(ending) == []


CONTRADICTED: Mapping[str, tuple[str, ...]] = {
    "undone after the check": ("touch done extra", "./check.sh", "touch broken"),
    "a check that reads what is gone": ("touch done words", "./check.sh; test -e words", "rm words; touch broken"),
}


@pytest.mark.parametrize("name", CONTRADICTED)
async def test_a_command_that_shows_something_else_now_proves_nothing(name: str, arena: Arena) -> None:
    ending = await fought(arena, *CONTRADICTED[name], cited="./check.sh")
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("does not contain"), ending.reasons
    assert len(replays(ending)) == 1


REPAIRS: Mapping[str, tuple[str, ...]] = {
    "a command that repairs a file": ("touch done; cp a.txt b", "echo 3 checks pass > a.txt; ./check.sh", "cp b a.txt"),
    "a command that makes a new file": ("touch done", "mkdir s; echo x > s/x; ./check.sh", "rm -r s"),
    "a command that removes a file": ("touch done broken", "rm broken; ./check.sh", "touch broken"),
    "a command that replaces a folder": (
        "touch done; echo fail > d/x",
        "rm -r d; mkdir d; ./check.sh",
        "echo fail > d/x",
    ),
    "a command that makes a link": ("touch done", "ln -s a.txt link; ./check.sh", "rm link"),
    "a command that changes a mode": ("touch done", "chmod 600 a.txt; ./check.sh", "chmod 644 a.txt; echo x > c"),
    "a command that commits": (
        "touch done; git init -q; git add -A; git commit -qm one",
        "git commit -q --allow-empty -m two; ./check.sh",
        "git reset -q --hard HEAD~1; echo x > c",
    ),
}
"""What such a command shows may be due to what it writes itself, which is gone: only its freshness could count."""


@pytest.mark.parametrize("name", REPAIRS)
async def test_a_command_that_writes_is_not_made_fresh(name: str, arena: Arena) -> None:
    ending = await fought(arena, *REPAIRS[name], cited="./check.sh")
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("is stale"), ending.reasons
    assert replays(ending) == []


STANDING: Mapping[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "it writes what is there already": (
        ("touch done; echo same > same", "echo same > same; ./check.sh"),
        {"cited": "./check.sh"},
    ),
    "its program is gone": (
        ("touch done", "mkdir -p ../tools; cp check.sh ../tools/look", "cd . && ../tools/look", "rm ../tools/look"),
        {"cited": "cd . &&"},
    ),
    "it was killed": (("touch done", "./check.sh; test -e ../k && kill -9 $$; touch ../k"), {"cited": "./check.sh"}),
}


@pytest.mark.parametrize("name", STANDING)
async def test_a_command_that_cannot_run_again_counts_while_it_is_fresh(name: str, arena: Arena) -> None:
    commands, more = STANDING[name]
    ending = await fought(arena, *commands, **more)
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert replays(ending) == []


async def test_a_command_that_needed_approval_is_not_run_again(arena: Arena) -> None:
    log = arena.folder / "deployed"
    ending = await fought(
        arena,
        "touch done",
        f"echo once >> {log}; ./check.sh",
        cited="./check.sh",
        approvals={"commands": ["echo once*"]},
        approver=ScriptedApprover(True),
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert log.read_text() == "once\n"


async def reported(arena: Arena, *deeds: Deed, **goal: Any) -> Ending:
    arena.write(FILES)
    settings = {"agent": {"use": NAME}, "agents": {NAME: {"argv": [NAME]}}, "judge": {"replay": True}, **goal}
    agent = ReportingAgent(arena.workspace, deeds)
    settings = {"validators": [{"name": "done", "run": DONE}], "max_iterations": 1, **settings}
    return await arena.fight(conversation=agent, judge_llm=cites("./check.sh"), **settings)


BWRAP = {"sandbox": "bwrap"}


SAID = Says("./check.sh", "3 checks passed in 0123s\n")


@needs_sandbox
async def test_a_true_report_becomes_what_the_runner_saw(arena: Arena) -> None:
    ending = await reported(
        arena, Does("touch done"), SAID, workspace=BWRAP, judge={"replay": True, "require": "runner"}
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert [item.reported_by for item in replays(ending)] == [""]


@needs_sandbox
async def test_a_false_report_is_contradicted(arena: Arena) -> None:
    ending = await reported(arena, Does("touch done broken"), SAID, workspace=BWRAP)
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("does not contain"), ending.reasons


async def test_a_reported_command_line_is_not_run_without_a_sandbox(arena: Arena) -> None:
    log = arena.folder / "log"
    said = Says(f"echo x >> {log}; ./check.sh", "3 checks passed in 0123s\n")
    ending = await reported(arena, Does("touch done"), said)
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("is stale"), ending.reasons
    assert not log.exists()


@needs_sandbox
@pytest.mark.parametrize(("network", "runs"), [(False, 1), (True, 0)])
async def test_replay_is_the_default_in_a_sandbox_without_network(arena: Arena, network: bool, runs: int) -> None:
    workspace = {**BWRAP, "network": network}
    ending = await fought(arena, "touch done", "./check.sh", cited="./check.sh", workspace=workspace, judge={})
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert len(replays(ending)) == runs


async def test_no_command_is_run_again_in_the_workspace_itself(arena: Arena) -> None:
    workspace = {"check": "in-place"}
    ending = await fought(arena, "touch done", "./check.sh", cited="./check.sh", workspace=workspace)
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert replays(ending) == []


async def test_what_a_command_itself_says_proves_nothing_again(arena: Arena) -> None:
    line = "echo 3 checks passed"
    ending = await fought(arena, "touch done", line, cited=line)
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("is part of the command"), ending.reasons
