"""The names of runs: new ones, and those that a user types."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import RunNotFound, one_line, quoted, some
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.records.run_summaries import run_names, run_summaries

if TYPE_CHECKING:
    import random

_LETTERS = "abcdefghjkmnpqrstvwxyz"
# Base 32 after Crockford: no i, l, o, u, which are misread or spell words.
_SIGNS = "0123456789" + _LETTERS
_FILLERS = frozenset(
    "a an the to of and or in on for with that this is are be please".split()
)
_MOST_WORDS = 3
_LONGEST_WORD = 12
# Characters of the words before the last one.
_LONGEST_WORDS = 10


def new_run_id(home: Path, objective: str, source: random.Random | None = None) -> str:
    """Return a short id like `k3f9-make-parse`, which is easy to read and type.

    No run in `home` has the same first four characters, so that these alone name the
    run. `source` is the source of randomness.
    """
    from random import SystemRandom  # not at the top: `goal list` needs no ids

    source = source or SystemRandom()
    try:
        used_beginnings = {path.name[:4] for path in (home / RUNS).iterdir()}
    except OSError:
        # There is no run yet, or making the run's folder will say what is wrong.
        used_beginnings = set()
    while True:
        signs = [source.choice(_LETTERS), *(source.choice(_SIGNS) for _ in range(3))]
        beginning = "".join(signs)
        if beginning not in used_beginnings:
            return "-".join((beginning, *_id_words(objective)))


def _id_words(objective: str) -> list[str]:
    """Return up to three words of an objective, for an id."""
    import unicodedata

    decomposed = unicodedata.normalize("NFKD", objective[:1000].casefold())
    plain = decomposed.encode("ascii", "ignore").decode()
    words = []
    for word in re.findall(r"[a-z0-9]+", plain):
        if word not in _FILLERS:
            words.append(word[:_LONGEST_WORD])
    words = words[:_MOST_WORDS]
    while len("-".join(words[:-1])) >= _LONGEST_WORDS:
        words.pop()
    return words


def find_run(home: Path, reference: str) -> RunFolder:
    """Return the run of that id, of the only id with that prefix, or in that folder.

    Raise RunNotFound, and UsageError if the runs cannot be listed.
    """
    folder = _folder_of_run(reference)
    if folder is not None:
        return folder
    names = run_names(home)
    if not names:
        raise _no_run_at_all(home)
    if reference in names:
        return RunFolder(home / RUNS / reference)
    # An empty reference is a prefix of every id.
    matching = [name for name in names if reference and name.startswith(reference)]
    if len(matching) == 1:
        return RunFolder(home / RUNS / matching[0])
    if matching:
        raise RunNotFound(
            f"{quoted(reference)} matches {len(matching)} runs: "
            f"{some(sorted(matching))}",
            "type more of the id",
        )
    raise RunNotFound(
        f"no run {quoted(reference)} in {home}", "goal list --all shows the runs"
    )


def _folder_of_run(reference: str) -> RunFolder | None:
    """Return the run in the folder of that path; None if it is no folder of a run."""
    # The current folder may be gone, or the name can be none of a file.
    with contextlib.suppress(OSError, ValueError):
        path = Path(os.path.realpath(reference)) if reference else None
        if path is not None:
            files = (path / "events.jsonl", path / "summary.json")
            if any(file.is_file() for file in files):
                return RunFolder(path)
    return None


def newest_run(home: Path, folder: Path) -> RunFolder:
    """Return the newest run of a folder, as `runs_of` finds them.

    Raise RunNotFound, which names the newest run elsewhere, and UsageError if the runs
    cannot be listed.
    """
    summaries = run_summaries(home)
    if not summaries:
        raise _no_run_at_all(home)
    runs = runs_of(summaries, folder)
    if runs:
        return RunFolder(home / RUNS / runs[0]["run_id"])
    readable = [summary for summary in summaries if summary.get("workspace")]
    message = f"no run worked in {folder} or in a folder above it"
    if not readable:
        raise RunNotFound(message, "goal list --all shows all runs")
    newest = readable[0]
    run_id = newest["run_id"]
    objective = quoted(one_line(str(newest.get("objective", ""))))
    raise RunNotFound(
        message,
        f"the newest run elsewhere: {run_id} in {newest['workspace']}, {objective}\n"
        f"to use that run, add its id: {run_id}; goal list --all shows all runs",
    )


def runs_of(summaries: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the runs whose workspace or goal file is in `folder`.

    If there are none, they are those of the nearest workspace above it.
    """
    by_workspace: dict[str, list[dict[str, Any]]] = {}
    in_folder = []
    for summary in summaries:
        workspace = str(summary.get("workspace", ""))
        by_workspace.setdefault(workspace, []).append(summary)
        # Faster than Path for many runs.
        goal_folder = os.path.dirname(str(summary.get("goal_file", "")))  # noqa: PTH120
        if str(folder) in (workspace, goal_folder):
            in_folder.append(summary)
    if in_folder:
        return in_folder
    for parent in folder.parents:
        if str(parent) in by_workspace:
            return by_workspace[str(parent)]
    return []


def _no_run_at_all(home: Path) -> RunNotFound:
    return RunNotFound(f"there is no run in {home}", "goal run GOAL_FILE starts one")
