"""Whether there is a sandbox for commands here. Owns what that means for a goal; the trial is the jail's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from goalrunner.model.goal import WorkspaceConfig
from goalrunner.process.jail import choose
from goalrunner.survey.check import Check


def sandbox_check(config: WorkspaceConfig, folder: Path, environ: Mapping[str, str]) -> Check:
    """What was found by running something in one; an obstacle only where the goal insists on a sandbox."""
    choice = choose(environ, (folder,), network=config.network)
    if choice.jail is not None:
        return Check("sandbox", "good", f"{choice.jail.name} works here")
    if config.sandbox == "bwrap" or not config.network:
        return Check("sandbox", "bad", choice.why, choice.remedy)
    return Check("sandbox", "note", f"{choice.why}; only a goal with [workspace] sandbox needs it", choice.remedy)
