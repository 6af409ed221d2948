"""A goal file that is run, left and resumed through the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.core.events import Record
from goalrunner.records.event_log import read_records
from tests.support.command_line import Ended
from tests.support.forking import Forks
from tests.support.logs import read_messages
from tests.support.recordings import recording


@dataclass(frozen=True)
class Goal:
    """The workspace is `root`/work; recordings and the goal file lie beside it."""

    root: Path
    home: Path
    forks: Forks

    @property
    def work(self) -> Path:
        """The workspace."""
        return self.root / "work"

    def write(self, text: str, *replies: dict[str, Any], workspace: str = "") -> None:
        """The goal file; MODEL in it is the recording of the replies. `workspace` is more of its table."""
        model = recording(self.root / "models.jsonl", *replies)
        table = f'\n[workspace]\npath = "{self.work}"\n{workspace}'
        (self.root / "goal.toml").write_text(text.replace("MODEL", model) + table)

    def run(
        self,
        *options: str,
        kill: tuple[str, float] | None = None,
        env: dict[str, str] | None = None,
    ) -> Ended:
        """`goal run`."""
        return self.forks.goal(
            "run", "goal.toml", *options, cwd=self.root, env=env, kill=kill
        )

    def run_anew(self, kill: tuple[str, float]) -> None:
        """`goal run` in the folder as it was, killed."""
        for path in self.work.iterdir():
            path.unlink()
        assert self.run(kill=kill).code == -9

    def resume(
        self,
        *options: str,
        kill: tuple[str, float] | None = None,
        env: dict[str, str] | None = None,
    ) -> Ended:
        """`goal resume` of the newest run."""
        return self.forks.goal("resume", *options, cwd=self.root, env=env, kill=kill)

    def command(self, *arguments: str) -> Ended:
        """Any other."""
        return self.forks.goal(*arguments, cwd=self.root)

    @property
    def folder(self) -> Path:
        """The newest run's."""
        return max(
            (self.home / "runs").iterdir(), key=lambda path: path.stat().st_ctime
        )

    def records(self) -> list[Record]:
        """The newest run's log."""
        return list(read_records(self.folder / "events.jsonl"))

    def number_of(self, kind: str, nth: int = 1) -> int:
        """The place in the log of the n-th event of that kind."""
        return [record.seq for record in self.records() if record.event.type == kind][
            nth - 1
        ]

    def chat(self) -> list[dict[str, Any]]:
        """The newest run's transcript."""
        return [
            dict(message) for message in read_messages(self.folder / "transcript.jsonl")
        ]

    def outcome(self) -> dict[str, Any]:
        """The newest run's."""
        result: dict[str, Any] = json.loads((self.folder / "outcome.json").read_text())
        return result
