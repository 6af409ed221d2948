"""The rule of freshness: which observations still count.

An observation is fresh if no file on which it may depend has changed since its tool was
started. Two facts show that. The times of the last changes, from one look at the end of
the round, show what changed between the start of the tool and the end of its round,
even if it was changed back. The snapshots show what differs from then on. What is not
known counts against freshness: without a time of the start, the whole round counts.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Collection, Mapping
from datetime import datetime

from goalrunner.core.observation import Observation

ChangeTimes = Mapping[str, int]
"""By path: when it last changed, in nanoseconds.

A folder, in which something appeared or vanished, ends with a slash.
"""

OTHERS = ""
"""The path of the newest change that is not listed, where too many paths changed."""
MOST_CHANGES = 500
"""Paths of one round whose times are recorded."""

MAKING = 2_000_000_000
"""Nanoseconds in which a new file, or a new cache folder, gets its first content."""

UNCERTAIN = 10_000_000
"""Nanoseconds by which the time of a file may lie before that of another clock."""

_COARSE = 1_000_000_000
_COARSE_STEP = 2 * _COARSE
"""Some file systems keep times in steps of one or two seconds."""

_LATEST = 1e11
"""Seconds; a later timestamp is in other units."""

SUITE_REPORTS = re.compile(
    r"(?:.*/)?(?:coverage\.(?:xml|json|lcov)|lcov\.info|junit[\w.-]*\.xml"
    r"|test-(?:results?|reports?)\.xml|\.aider\..+)"
)
"""Reports that suites write, and files that an agent keeps of its own session."""
_CODE = re.compile(
    r".*\.(?:py[iwx]?|[cm]?[jt]sx?|go|rs|java|kts?|scala|cs|fs|c|cc|cpp|cxx|h|hh|hpp"
    r"|m|mm|swift|rb|php|pl|lua|ex|exs|erl|hs|ml|clj|r|jl|dart|vue|svelte|sh|bash|zsh"
    r"|fish|ps1|sql|toml|cfg|ini|ya?ml|json5?|gradle|cmake|mk)"
    r"|(?:.*/)?(?:Makefile|GNUmakefile|Dockerfile|Rakefile|Gemfile|conftest[^/]*)"
)
_GIT = re.compile(r"\bgit\b")


def newest(times: ChangeTimes) -> dict[str, int]:
    """Return the times to record, newest first.

    Those that are left out are one time for OTHERS.
    """
    # The newest changes make the most observations outdated.
    ordered = sorted(times.items(), key=lambda entry: (-entry[1], entry[0]))
    recorded, others = dict(ordered[:MOST_CHANGES]), ordered[MOST_CHANGES:]
    if others:
        recorded[OTHERS] = others[0][1]
    return recorded


def start_of(timestamp: object) -> int | None:
    """Return a time before the tools of a message started, by its timestamp.

    The timestamp is a text in ISO 8601, or seconds since 1970; it is local time without
    an offset. The result is in nanoseconds since 1970; None for anything else.
    """
    seconds: float | None = None
    if isinstance(timestamp, str):
        with contextlib.suppress(ValueError, OverflowError, OSError):
            seconds = datetime.fromisoformat(timestamp).timestamp()
    elif isinstance(timestamp, int | float) and not isinstance(timestamp, bool):
        seconds = timestamp
    if seconds is None or not 0 < seconds < _LATEST:
        return None
    # In whole microseconds: a float holds no nanoseconds of our time.
    return int(seconds * 1_000_000) * 1_000 - UNCERTAIN


def is_git(path: str) -> bool:
    """Return whether a path of a snapshot stands for the data of a repository."""
    return path.rpartition("/")[2] == ".git"


def is_code(path: str) -> bool:
    """Return whether a path is named like code or configuration.

    A validator that rewrites such a file is no test run.
    """
    return bool(_CODE.fullmatch(path))


def depends_on(item: Observation, path: str, written: Collection[str]) -> bool:
    """Return whether an observation may depend on a path.

    `written` are files that validators write. The reports of suites are results. A
    repository counts only for a command with the word git: a commit changes no file.
    """
    if is_git(path):
        return bool(_GIT.search(item.command))
    return path not in written and not SUITE_REPORTS.fullmatch(path)


def changed_after_start(
    item: Observation,
    times: ChangeTimes | None,
    differing: Collection[str],
    written: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the paths that changed after the tool was started, sorted.

    Changes up to the end of its round count. `times` are those of the round; None if
    they are not known, as in logs of earlier versions. `differing` are paths with
    another content at the end of the round than before the tool; for a reported
    observation, than at the start of the round.
    """
    is_reported = bool(item.reported_by)
    differing_files = {path for path in differing if not is_git(path)}
    if times is None or (item.started is None and not is_reported):
        return tuple(
            sorted(path for path in differing_files if depends_on(item, path, written))
        )
    # What is only reported rests on the times alone. The snapshots around a tool of the
    # runner show other changes; a time within it shows a change that was undone.
    files = set() if is_reported else differing_files
    folders = set()
    for path, at in times.items():
        if not _is_later(item, path, at, differing):
            continue
        if not path.endswith("/"):
            files.add(path)
        elif not _has_file_of(path, at, times):
            folders.add(path.removeprefix("/") or "./")
    changed = {
        path or "other files" for path in files if depends_on(item, path, written)
    }
    return tuple(sorted(changed or folders))


def _is_later(
    item: Observation, path: str, at: int, differing: Collection[str]
) -> bool:
    """Return whether the time of a path shows a change that counts.

    For a tool of the runner, that is a change while it ran.
    """
    start, end = item.started or 0, item.ended or 0
    if is_git(path):
        # The tool itself may have changed the repository while it ran.
        return bool(item.reported_by) and path in differing and at > max(start, end)
    if not item.reported_by:
        return start <= at <= end
    if at >= start:
        return True
    # A time in whole seconds may be rounded down.
    may_be_later = at % _COARSE == 0 and at + _COARSE_STEP > start
    return may_be_later and path in differing


def _has_file_of(folder: str, at: int, times: ChangeTimes) -> bool:
    """Return whether a file was made in a folder at a time.

    The time of the file counts then.
    """
    for path, time in times.items():
        is_file = bool(path) and not path.endswith("/")
        is_in_folder = f"{posixpath.dirname(path)}/" == folder
        if is_file and is_in_folder and at <= time <= at + MAKING:
            return True
    return False
