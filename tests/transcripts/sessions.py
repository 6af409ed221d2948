"""One story in the shape of each format: the agent claims more than its tools show, and prints a file of its own.

It says that 43 tests passed, runs the tests, of which 2 fail, writes report.txt, prints it, lets a sub-agent report, and
ends with a tool that repeats its argument. The files are in the folder `stories`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

STORIES = Path(__file__).with_name("stories")

QUOTED = "The output of pytest was: 43 passed in 0.10s"
TESTS = "2 failed, 41 passed in 0.52s"
WRITTEN = "report.txt was saved"
REPORT = "43 passed in 0.09s (report)"
FINAL = "All 43 tests passed."


@dataclass(frozen=True)
class Session:
    """A transcript of the story."""

    path: Path

    @property
    def format(self) -> str:
        """The name of the format, which is that of the file."""
        return self.path.stem

    @property
    def is_lines(self) -> bool:
        """Whether it is JSON Lines."""
        return self.path.suffix == ".jsonl"

    @cached_property
    def text(self) -> str:
        """The content of the file."""
        return self.path.read_text(encoding="utf-8")


def transcripts_in(folder: Path) -> list[Path]:
    """Return the transcripts in a folder, without the texts beside them."""
    return sorted(
        path for path in folder.iterdir() if path.suffix in (".json", ".jsonl", ".md")
    )


ALL_SESSIONS = [Session(path) for path in transcripts_in(STORIES)]
"""One or two for each format: some formats may be a document or JSON Lines."""

SESSIONS = {session.format: session for session in reversed(ALL_SESSIONS)}
"""Name of the format -> its transcript, a document if there are both."""
