"""One run of a case, in this process, and what is wrong with its end."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.build import prepare_run
from goalrunner.app.run_options import RunOptions, judge_of
from goalrunner.app.session import drive_to_end
from goalrunner.core.events import RoundStarted, ValidatorsFinished
from goalrunner.goalfile.loading import load_goal
from tests.honest.case import PRELUDE, Case, Mode
from tests.honest.right_judge import RightJudge
from tests.support.arena import Arena, Ending
from tests.support.workspaces import git

_AGENT = "worker"
_LINE = "allow = ["
"""A line that settles a blocked run has this form."""
_GUARD = "\nassert Path.cwd() == Path({folder!r}), 'the agent works in its workspace alone'\n"
_BEGIN = "open({path!r}, 'w').close()\nopen({worked!r}, 'w').close()\n"


@dataclass(frozen=True)
class Got:
    """The end of a run: what the table shows."""

    status: str
    stop_reason: str
    iterations: int
    rounds: int
    labels: tuple[str, ...]
    text: str
    """Every reason that the run gave."""
    suites: int
    """How often pytest ran after the turn of the agent."""

    @property
    def end(self) -> str:
        """Status, and the reason of one that is not complete."""
        return (
            self.status
            if self.status == "complete"
            else f"{self.status} {self.stop_reason}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The labels without what they are about."""
        return tuple(label.partition(":")[0] for label in self.labels)


async def run_case(case: Case, mode: Mode, arena: Arena) -> Got:
    """Make the project, run the goal, and return its end."""
    root = arena.workspace
    arena.write(case.files)
    arena.workspace = root / case.folder if case.folder else root
    # pytest-xdist makes a temporary folder, and with it removes those of old runs of these tests, which takes minutes.
    arena.environ["PYTEST_DEBUG_TEMPROOT"] = str(arena.folder)
    if case.prepare:
        case.prepare(arena)
    counter = _count_suites(arena)
    _write_goal(case, arena)
    _write_agent(case, arena, counter)
    if case.git:
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", "start")
    path = arena.workspace / "goal.toml"
    goal = load_goal(path, {"workspace.path": str(arena.workspace)}, arena.environ)
    if mode == "judge":
        judge = RightJudge(
            asked="" if case.refused else case.asked or case.objective,
            worked=(arena.folder / "worked").exists,
        )
        goal = goal.model_copy(update={"judge": judge_of(goal, judge)})
    options = RunOptions(
        home=arena.home, environ=arena.environ, observers=[arena], goal_file=path
    )
    try:
        prepared = prepare_run(goal, options)
        outcome = await drive_to_end(prepared)
        ending = Ending(outcome, tuple(arena.records), Path(outcome.run_path))
    finally:
        if case.after:
            case.after(arena)
    outcome = ending.outcome
    status, reason, iterations = ending.how
    rounds = sum(isinstance(record.event, RoundStarted) for record in arena.records)
    text = "\n".join(dict.fromkeys((*ending.reasons, *_hints(arena))))
    return Got(
        status,
        reason,
        iterations,
        rounds,
        outcome.labels,
        text,
        counter.read_text().count("x"),
    )


def _hints(arena: Arena) -> list[str]:
    """Return the lines that would allow the changes of checks."""
    found = [
        item.event.changed_checks
        for item in arena.records
        if isinstance(item.event, ValidatorsFinished)
    ]
    return [changed.hint for changed in found if changed]


def fault(case: Case, mode: Mode, got: Got) -> str:
    """Return what is wrong with the end of a run; empty if it is as wanted."""
    if case.kind == "red":
        return (
            ""
            if got.status != "complete"
            else f"complete {got.labels}, and its own command fails"
        )
    if case.kind == "attack":
        if got.status != "complete" or set(got.names) & set(case.labels or ()):
            return ""
        return f"complete with the labels {got.labels}"
    blocked_fine = mode == "alone" and case.alone in ("blocked", "either")
    if blocked_fine and got.status == "blocked":
        return (
            ""
            if _LINE in got.text
            else f"blocked without the exact line: {got.text[-300:]}"
        )
    if got.status != "complete" or (mode == "alone" and case.alone == "blocked"):
        return f"{got.end}: {got.text[-600:]}"
    if got.rounds != 1:
        return f"complete after {got.rounds} rounds"
    return _wrong_labels(case, mode, got)


def _wrong_labels(case: Case, mode: Mode, got: Got) -> str:
    if case.labels is None:
        return ""
    reviewed = (
        mode == "judge"
        and case.alone != "complete"
        and "checks changed" in got.names
        and "flaky" not in got.names
    )
    if reviewed or set(got.names) == set(case.labels):
        return ""
    return f"complete with the labels {got.labels}"


def wanted(case: Case, mode: Mode) -> str:
    """Return the wanted end for the table."""
    if case.kind == "red":
        return "not complete"
    labels = f" [{', '.join(case.labels)}]" if case.labels else ""
    if case.kind == "attack":
        return f"refused or{labels}" if labels else "refused"
    if mode == "judge":
        return "complete" + (" (reviewed)" if case.alone == "blocked" else labels)
    return {
        "complete": f"complete{labels}",
        "blocked": "blocked with a line",
        "either": "complete or blocked",
    }[case.alone]


def _write_goal(case: Case, arena: Arena) -> None:
    runs = [case.run] if isinstance(case.run, str) else case.run
    validator = (
        f"validator = {json.dumps(runs[0])}\n" if len(runs) == 1 and runs[0] else ""
    )
    tables = (
        ""
        if validator or not runs[0]
        else "".join(f"[[validators]]\nrun = {json.dumps(run)}\n" for run in runs)
    )
    first = f'objective = {json.dumps(case.objective)}\n{validator}agent = "{_AGENT}"\nmax_iterations = 1\n'
    (arena.workspace / "goal.toml").write_text(f"{first}{case.lines}{tables}")


def _write_agent(case: Case, arena: Arena, counter: Path) -> None:
    script = arena.folder / "agent.py"
    begin = _GUARD.format(folder=str(arena.workspace)) + _BEGIN.format(
        path=str(counter), worked=str(arena.folder / "worked")
    )
    script.write_text(
        PRELUDE + begin + "\n".join(case.work) + '\nprint("I am done.")\n'
    )
    presets = arena.folder / "config/goal/agents"
    presets.mkdir(parents=True)
    (presets / f"{_AGENT}.toml").write_text(
        f"argv = {json.dumps([sys.executable, str(script)])}\n"
    )
    arena.environ["XDG_CONFIG_HOME"] = str(arena.folder / "config")


def _count_suites(arena: Arena) -> Path:
    """Put a program first on PATH that counts the runs of pytest; return the file that has an `x` for each."""
    machine, counter = machine_of(arena), arena.folder / "suites"
    counter.write_text("")
    real = Path(sys.executable).parent / "pytest"
    (machine / "pytest").write_text(
        f'#!/bin/sh\nprintf x >> "{counter}"\nexec "{real}" "$@"\n'
    )
    (machine / "pytest").chmod(0o755)
    return counter


def machine_of(arena: Arena) -> Path:
    """Return a folder outside of the workspace that is first on PATH and on PYTHONPATH."""
    machine = arena.folder / "machine"
    if not machine.exists():
        machine.mkdir()
        arena.environ["PATH"] = f"{machine}{os.pathsep}{arena.environ['PATH']}"
        arena.environ["PYTHONPATH"] = str(machine)
    return machine
