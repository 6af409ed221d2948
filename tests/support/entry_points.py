"""One case, run through each entry point: `goal run`, `run_goal`, `arun_goal` and `GoalController`."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalrunner import (
    Goal,
    GoalController,
    GoalDone,
    GoalOutcome,
    arun_goal,
    chat_conversation,
    run_goal,
)
from goalrunner.cli.main import main
from goalrunner.goalfile.dumping import dump_goal
from tests.support.recordings import agent, judge, recording, shell

Evidence = Sequence[Mapping[str, str]]
"""What the judge cites in one audit; nothing: it says that the goal is not reached."""


@dataclass(frozen=True)
class Turn:
    """One round of the agent: command lines in order, then what it says."""

    commands: tuple[str, ...] = ()
    said: str = "I am done: everything works."


@dataclass(frozen=True)
class Case:
    """What an agent does, what the judge cites, and how the run ends at every entry point."""

    name: str
    turns: tuple[Turn, ...]
    files: Mapping[str, str]
    goal: Mapping[str, Any]
    audits: tuple[Evidence, ...] = ()
    """One for each audit; without any there is no judge."""
    how: tuple[str, str] = ("capped", "max_iterations")
    words: str = ""
    """They stand in what is missing, in the feedback, or in the message of the run."""
    labels: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    """Files of the current folder, which is not the workspace."""


@dataclass(frozen=True)
class Place:
    """The folders of one run; `here` is the current folder."""

    folder: Path
    here: Path
    workspace: Path

    def goal(self, case: Case) -> Goal:
        """The goal of a case, with its judge and its workspace."""
        audits = [
            judge(("the goal", [dict(item) for item in cited]), missing="show it")
            for cited in case.audits
        ]
        keys: dict[str, Any] = {
            "objective": "Reach the goal.",
            "max_iterations": len(case.turns),
            **case.goal,
        }
        if audits:
            # An audit whose citations do not hold is asked again once.
            keys["judge"] = {
                "model": recording(self.folder / "judge.jsonl", *audits, audits[-1])
            }
            keys["success_criteria"] = ["the goal"]
        keys["agent"] = {"model": self.model(case)}
        keys["workspace"] = {
            **case.goal.get("workspace", {}),
            "path": str(self.workspace),
        }
        return Goal.model_validate(keys)

    def model(self, case: Case) -> str:
        """The scripted model of the built-in agent."""
        replies = []
        for turn in case.turns:
            replies += [agent("", shell(command)) for command in turn.commands]
            replies.append(agent(turn.said))
        return recording(self.folder / "agent.jsonl", *replies)


def by_goal_run(case: Case, place: Place) -> GoalOutcome:
    """The command, in this process."""
    path, home = place.folder / "goal.toml", place.folder / "home"
    path.write_text(dump_goal(place.goal(case)), encoding="utf-8")
    main(["run", str(path), "--quiet"])
    (outcome,) = home.glob("runs/*/outcome.json")
    return GoalOutcome.model_validate_json(outcome.read_text(encoding="utf-8"))


def by_run_goal(case: Case, place: Place) -> GoalOutcome:
    """The library."""
    return run_goal(
        chat_conversation(place.model(case), workspace=place.workspace),
        place.goal(case),
    )


def by_arun_goal(case: Case, place: Place) -> GoalOutcome:
    """The library, in an event loop of the caller."""
    return asyncio.run(
        arun_goal(
            chat_conversation(place.model(case), workspace=place.workspace),
            place.goal(case),
        )
    )


def by_controller(case: Case, place: Place) -> GoalOutcome:
    """A driver of one's own, whose agent runs the same commands and reports their output."""
    controller = GoalController(place.goal(case))
    chat: list[dict[str, Any]] = [{"role": "user", "content": controller.start()}]
    for turn in case.turns:
        for command in turn.commands:
            chat += _reported(f"c{len(chat)}", command, place.workspace)
        chat.append({"role": "assistant", "content": turn.said})
        step = controller.on_run_finished(chat)
        if isinstance(step, GoalDone):
            return step.outcome
        chat.append({"role": "user", "content": step.followup})
    raise AssertionError("the controller asks for more rounds than the agent has")


ENTRY_POINTS: Mapping[str, Callable[[Case, Place], GoalOutcome]] = {
    "goal run": by_goal_run,
    "run_goal": by_run_goal,
    "arun_goal": by_arun_goal,
    "GoalController": by_controller,
}


def reasons(outcome: GoalOutcome) -> str:
    """Everything that the run said about why it is not complete."""
    missing = outcome.verdict.missing if outcome.verdict else ""
    return "\n".join(
        [
            *(attempt.feedback or "" for attempt in outcome.attempts),
            missing,
            outcome.message,
        ]
    )


def _reported(call: str, command: str, workspace: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        command,
        shell=True,
        cwd=workspace,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    function = shell(command)
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call, "content": done.stdout + done.stderr},
    ]
