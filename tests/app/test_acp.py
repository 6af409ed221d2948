"""A whole run with an agent that speaks ACP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app import run_options, session
from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AgentConfig,
    Approvals,
    Budget,
    ValidatorSpec,
    WorkspaceConfig,
)
from goalrunner.core.outcome import GoalOutcome
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder
from tests.support.acp_bench import AcpBench
from tests.support.deciding import decide_approval

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
]


class Course(AcpBench):
    """Runs of one goal, to make the file `done`, with a scripted agent."""

    def __init__(self, folder: Path, *prompts: list[Any], **script: Any) -> None:
        super().__init__(folder, *prompts, **script)
        self.home = folder / "home"

    def goal(self, **more: Any) -> Goal:
        return Goal.model_validate(
            {
                "objective": "make done hold a 3",
                "validators": (ValidatorSpec(name="done", run="grep -q 3 done"),),
                "workspace": WorkspaceConfig(path=str(self.workspace)),
                "agent": AgentConfig(use="acp", command=self.command),
                **more,
            }
        )

    async def run(self, **more: Any) -> GoalOutcome:
        return await session.arun(
            self.goal(**more), run_options.RunOptions(home=self.home)
        )

    async def resume(self, **limits: float | None) -> GoalOutcome:
        return await session.resume_run(
            self.run_folder, run_options.RunOptions(home=self.home), limits
        )

    @property
    def run_folder(self) -> RunFolder:
        (path,) = (self.home / "runs").iterdir()
        return RunFolder(path)

    def events(self, name: str) -> list[Any]:
        events = (record.event for record in read_records(self.run_folder.events))
        return [event for event in events if event.type == name]


def leave(command: str, *refused: list[Any]) -> list[Any]:
    """Asks to run a command, and runs it where it may."""
    call = {"toolCallId": "c1", "kind": "execute", "title": f"`{command}`"}
    return [
        "ask",
        call,
        ["allow_always", "allow_once", "reject_once"],
        [["shell", command]],
        list(refused),
    ]


APPEND = "echo 3 >> done"
TWICE = {"validators": (ValidatorSpec(name="twice", run="test $(wc -l < done) -ge 2"),)}


async def test_a_run_whose_agent_does_unasked_what_a_person_was_to_decide_on_bears_a_label(
    tmp_path: Path,
) -> None:
    course = Course(tmp_path, [["shell", APPEND], ["say", "done"]])

    outcome = await course.run(approvals=Approvals(require=("shell",)))

    assert (outcome.status, outcome.labels) == ("complete", ("unasked actions",))
    (result,) = course.events("tool_result_recorded")
    assert result.observation.facts == ("exit 0", "ran without approval")
    assert result.summary == "exit 0, ran without approval"


async def test_an_agent_is_told_to_ask_only_if_a_person_decides(tmp_path: Path) -> None:
    course = Course(tmp_path, [["shell", 'echo "3 $TOLD" >> done'], ["say", "done"]])
    speaker = Preset(acp=course.command, asking={"TOLD": "ask first"})
    agent = {
        "agent": AgentConfig(use="speaker", protocol="acp"),
        "agents": {"speaker": speaker},
    }

    await session.arun(
        course.goal(**agent), run_options.RunOptions(home=tmp_path / "free")
    )
    await session.arun(
        course.goal(**agent, approvals=Approvals(commands=("git push",)), **TWICE),
        run_options.RunOptions(home=course.home),
    )

    assert (course.workspace / "done").read_text() == "3 \n3 ask first\n"


async def test_an_approval_is_asked_for_given_and_used_exactly_once(
    tmp_path: Path,
) -> None:
    again = [leave(APPEND), ["say", "done"]]
    course = Course(
        tmp_path,
        again,
        again,
        again,
        capabilities={"sessionCapabilities": {"resume": {}}},
    )
    once = {
        "approvals": Approvals(require=("shell",), on_deny="continue"),
        "max_iterations": 3,
    }

    waiting = await course.run(
        validators=(ValidatorSpec(name="thrice", run="test $(wc -l < done) -ge 2"),),
        **once,
    )
    assert (waiting.status, waiting.stop_reason, waiting.exit_code) == (
        "blocked",
        "approval_required",
        3,
    )
    assert not (course.workspace / "done").exists()

    decide_approval(course.run_folder, "approved")
    resumed = await course.resume()

    assert (course.workspace / "done").read_text() == "3\n", (
        "once, though it was asked for in the next round again"
    )
    assert (resumed.status, resumed.stop_reason) == ("blocked", "approval_required")
    assert [event.action for event in course.events("approval_requested")] == [
        APPEND,
        APPEND,
    ]
    assert len(course.seen("session/resume")) == 1

    decide_approval(course.run_folder, "approved")
    assert (await course.resume()).status == "complete"
    assert (course.workspace / "done").read_text() == "3\n3\n"


def reporter(course: Course) -> dict[str, Any]:
    """An agent whose preset promises tokens and dollars."""
    preset = Preset(
        acp=course.command, acp_reports={"tokens": "turn", "cost_usd": "session"}
    )
    return {"agent": AgentConfig(use="reporter"), "agents": {"reporter": preset}}


@pytest.mark.parametrize("budget", [Budget(tokens=1_000), Budget(cost_usd=10)])
async def test_what_was_promised_and_is_not_told_ends_a_run_with_a_budget_of_it(
    tmp_path: Path, budget: Budget
) -> None:
    course = Course(tmp_path, [["say", "not yet"]])

    outcome = await course.run(budget=budget, **reporter(course))

    assert (outcome.stop_reason, outcome.iterations) == ("budget_exhausted", 1)
    assert "the usage of a call of reporter or the judge is unknown" in outcome.message
    assert "--allow-unenforced" in outcome.message


async def test_a_turn_without_a_message_or_a_report_is_checked_if_it_changed_a_file(
    tmp_path: Path,
) -> None:
    course = Course(
        tmp_path,
        [
            ["spawn", "echo 3 > new; mv new done"],
            ["wait_for", str(tmp_path / "workspace" / "done")],
        ],
    )

    outcome = await course.run()

    assert (outcome.status, outcome.iterations) == ("complete", 1)


async def test_a_turn_in_which_nothing_happened_ends_the_run(tmp_path: Path) -> None:
    course = Course(tmp_path, [])

    outcome = await course.run()

    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert "it ended its turn without a message (end_turn)" in outcome.message
