"""Whether there is a sandbox for commands here. Finds out by running something in one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from goalrunner.model.goal import WorkspaceConfig
from goalrunner.survey.check import Check

_PATIENCE = 10.0
_TRIAL = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "true")


def sandbox_check(config: WorkspaceConfig, folder: Path, environ: Mapping[str, str]) -> Check:
    """What was found; an obstacle only where the goal insists on a sandbox."""
    program = shutil.which("bwrap", path=environ.get("PATH", os.defpath))
    if program is None:
        return _none(config, "bwrap is not on PATH", "apt-get install bubblewrap")
    try:
        tried = subprocess.run(
            [program, *_TRIAL], capture_output=True, timeout=_PATIENCE, env=dict(environ), check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _none(config, f"{program} cannot be run: {error}", "")
    if tried.returncode:
        return _none(config, f"{program}: {tried.stderr.decode(errors='replace').strip()}", "")
    return Check("sandbox", "good", f"{program} works here")


def _none(config: WorkspaceConfig, why: str, remedy: str) -> Check:
    insists = config.sandbox == "bwrap" or not config.network
    said = why if insists else f"{why}; only a goal with [workspace] sandbox needs it"
    return Check("sandbox", "bad" if insists else "note", said, remedy)
