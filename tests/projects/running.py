"""One measured run: `goal run` with a short goal file and an agent that undoes the planted bug."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tests.projects.prepare import Place, environment
from tests.projects.project import Project

Mode = Literal["plain", "in-place", "protect", "editable", "isolated"]
MODES: tuple[Mode, ...] = get_args(Mode)

_TOO_LONG = 600
_CACHES = ("__pycache__", ".pytest_cache", "node_modules", ".venv")
_FIX = """\
from pathlib import Path

path = Path({path!r})
path.write_text(path.read_text("utf-8").replace({wrong!r}, {right!r}), "utf-8")
print("I changed one line of", path.name)
"""


@dataclass(frozen=True)
class Result:
    """How a run ended. `changed` are the paths of the live workspace that differ, the planted bug's file left out."""

    exit_code: int
    status: str
    stop_reason: str
    iterations: int
    message: str
    seconds: float
    changed: tuple[str, ...]
    fixed: bool
    output: str
    environment: str

    @property
    def short(self) -> str:
        """Return one line for the table: "complete", or how it ended instead."""
        if self.status != "complete":
            return f"{self.status} {self.stop_reason}: {' '.join(self.message.split())}"
        if self.iterations > 1:
            return f"complete in round {self.iterations}"
        if self.changed or not self.fixed:
            return f"complete, and the tree changed: {', '.join(self.changed) or 'the fix is gone'}"
        return "complete"


def run_goal(
    project: Project,
    mode: Mode,
    place: Place,
    folder: Path,
    home: Path,
    script: str = "",
) -> Result:
    """Run the goal in a restored project. `folder` is for the files of the agent, `home` is GOAL_HOME.

    The agent is a Python script that undoes the bug, followed by the lines of `script`.
    """
    environ = {
        **environment(project),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "GOAL_HOME": str(home),
    }
    _write_agent(project, place.workspace, folder, script)
    (place.workspace / "goal.toml").write_text(goal_file(project, mode), "utf-8")
    before = _listing(place.workspace, environ)
    everything = _everything(place, environ) if mode == "isolated" else {}
    started = time.monotonic()
    done = _goal(place, environ, "run", "goal.toml", "--json", "--max-iterations", "1")
    changed = set()
    if mode == "isolated":
        changed = _changed(everything, _everything(place, environ))
        applied = _goal(place, environ, "apply")
        if applied.returncode != 0:
            changed.add(f"goal apply: {applied.stderr}")
    seconds = round(time.monotonic() - started, 2)
    changed |= _changed(before, _listing(place.workspace, environ))
    if mode == "isolated":
        changed |= _tests_of_the_person(project, place, environ)
    outcome = json.loads(done.stdout) if done.stdout.strip() else {}
    text = (place.workspace / project.bug.path).read_text("utf-8")
    return Result(
        exit_code=done.returncode,
        status=outcome.get("status", f"exit code {done.returncode}"),
        stop_reason=outcome.get("stop_reason") or "",
        iterations=outcome.get("iterations", 0),
        message=_message(outcome) or done.stderr.strip()[-400:],
        seconds=seconds,
        changed=tuple(sorted(changed - {project.bug.path})),
        fixed=project.bug.right in text and project.bug.wrong not in text,
        output=done.stderr[-4000:],
        environment=outcome.get("check_environment") or "",
    )


def _goal(
    place: Place, environ: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [goal_program(), *arguments],
        cwd=place.workspace,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TOO_LONG,
        check=False,
    )


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    paths = before.keys() | after.keys()
    return {path for path in paths if before.get(path) != after.get(path)}


def _everything(place: Place, environ: dict[str, str]) -> dict[str, str]:
    """Return a hash for each file of the workspace and beside it, ignored files and repositories included."""
    hashes = {
        str(path.relative_to(place.folder)): _hash(path)
        for path in place.folder.rglob("*")
        # An environment beside the workspace is no part of the copy.
        if "__pycache__" not in path.parts or path.is_relative_to(place.workspace)
    }
    if not _has_repository(place.workspace):
        return hashes
    status = ("status", "--porcelain=v2", "--branch", "--ignored")
    return {**hashes, "git status": _git(place.workspace, environ, *status)}


def _tests_of_the_person(
    project: Project, place: Place, environ: dict[str, str]
) -> set[str]:
    """Run the validator in the workspace; return what it printed if it is red, else nothing."""
    done = subprocess.run(
        ["sh", "-c", project.run],
        cwd=place.workspace,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TOO_LONG,
        check=False,
    )
    return {f"red in the workspace: {done.stdout}"} if done.returncode else set()


def goal_file(project: Project, mode: Mode) -> str:
    """Return the goal file: three lines, and those of the mode."""
    lines = {
        "plain": "",
        "isolated": "[workspace]\nisolate = true\n",
        "in-place": '[workspace]\ncheck = "in-place"\n',
        "protect": f"[workspace]\nprotect = {json.dumps([project.tests])}\n",
        "editable": f"[workspace]\neditable = {json.dumps([project.editable])}\n",
    }
    objective, validator = (
        json.dumps(f"Make the tests of {project.name} pass."),
        json.dumps(project.run),
    )
    return f'objective = {objective}\nvalidator = {validator}\nagent = "fixer"\n{lines[mode]}'


def goal_program() -> str:
    """Return the measured program: $GOAL_PROJECTS_COMMAND, another version's for comparison, or the one of this project."""
    return os.environ.get("GOAL_PROJECTS_COMMAND") or str(
        Path(sys.executable).parent / "goal"
    )


def _message(outcome: dict[str, Any]) -> str:
    """Return why a run is not complete: its message, and what was missing in the last round."""
    attempts = outcome.get("attempts") or [{}]
    missing = attempts[-1].get("feedback") or ""
    return ": ".join(text for text in (outcome.get("message"), missing) if text)


def _write_agent(project: Project, workspace: Path, folder: Path, script: str) -> None:
    bug, path, presets = project.bug, folder / "fix.py", folder / "config/goal/agents"
    lines = _FIX.format(
        path=str(workspace / bug.path), wrong=bug.wrong, right=bug.right
    )
    path.write_text(lines + script, "utf-8")
    presets.mkdir(parents=True)
    (presets / "fixer.toml").write_text(
        f"argv = {json.dumps([sys.executable, str(path)])}\n", "utf-8"
    )


def _listing(workspace: Path, environ: dict[str, str]) -> dict[str, str]:
    """Return a hash for each file that is not ignored, and what git says of its commits, index and submodules."""
    if not _has_repository(workspace):
        files = [
            path for path in workspace.rglob("*") if not set(path.parts) & set(_CACHES)
        ]
        return {
            str(path.relative_to(workspace)): _hash(path)
            for path in files
            if path.is_file() or path.is_symlink()
        }
    told = {
        command: _git(workspace, environ, *command.split())
        for command in (
            "for-each-ref",
            "rev-parse HEAD",
            "diff --cached --name-status",
            "submodule status",
        )
    }
    names = _git(
        workspace,
        environ,
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ).split("\0")
    return told | {name: _hash(workspace / name) for name in names if name}


def _has_repository(workspace: Path) -> bool:
    return any((root / ".git").exists() for root in (workspace, workspace.parent))


def _git(workspace: Path, environ: dict[str, str], *arguments: str) -> str:
    # An optional refresh of the index by the test itself would hide one by the run.
    environ = {**environ, "GIT_OPTIONAL_LOCKS": "0"}
    return subprocess.run(
        ["git", *arguments],
        cwd=workspace,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _hash(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"  # noqa: PTH115
    if not path.is_file():
        return "folder" if path.is_dir() else "missing"
    return f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
