"""Where the machine's own programs of the checks were at the start. Owns that memory, and the refusal where one is elsewhere.

Without a sandbox an agent can put a program of the same name into a folder that PATH names before: `~/.local/bin/pytest`.
What it does to a program in its place, or to what that program loads, is not seen here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import ValidatorSpec
from goalrunner.process.program import program_outside
from goalrunner.validators.lookup import names
from goalrunner.wholefile import write_whole
from goalrunner.workspace.refusal import Refusal

_Found = dict[str, dict[str, str]]


class Whereabouts:
    """Of the checks `specs`, with the environment `env`. `record` is the file that keeps the start for a resumed run."""

    def __init__(
        self, specs: Sequence[ValidatorSpec], env: Mapping[str, str], workspace: Path, record: Path | None = None
    ) -> None:
        self._specs = tuple(specs)
        self._env = dict(env)
        self._workspace = workspace
        self._record = record
        self._start = self._look()

    def remember(self) -> None:
        """Keep the start, or take what was kept of it. Raises WorkspaceError where that is damaged, or cannot be kept."""
        if self._record is None:
            return
        try:
            kept = json.loads(self._record.read_text("utf-8"))
            # Another PATH is the user's doing: no agent changes the environment of the runner.
            self._start |= {path: dict(found) for path, found in kept.items() if path in self._start}
        except FileNotFoundError:
            self._keep(self._record)
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise WorkspaceError(
                f"{self._record} is damaged: it said where programs were at the start", "start a new run"
            ) from error

    def _keep(self, record: Path) -> None:
        try:
            record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(record, json.dumps(self._start).encode())
        except OSError as error:
            raise WorkspaceError(f"cannot write {record}: {error.strerror or error}", "free some space") from error

    def elsewhere(self) -> tuple[Refusal, ...]:
        """The programs that are now found in another place."""
        now = self._look()
        return tuple(
            Refusal(
                found or f"the program {name}",
                f"{'found in place of' if found else 'no longer'} {before}, which checks were started by at the start",
                "put it back as it was, or name the program by its whole path in the validator",
            )
            for path, start in self._start.items()
            for name, before in start.items()
            if before and (found := now.get(path, {}).get(name, "")) != before
        )

    def _look(self) -> _Found:
        """By PATH: where each program outside of the workspace is; empty for none."""
        found: _Found = {}
        for spec in self._specs:
            path = spec.env.get("PATH", self._env.get("PATH", os.defpath))
            for name in names(spec, self._workspace):
                if "/" not in name:
                    place = program_outside(name, {"PATH": path}, (self._workspace,))
                    found.setdefault(path, {})[name] = str(place or "")
        return found
