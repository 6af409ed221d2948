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
"""By path: when it last changed, in nanoseconds. A folder, in which something appeared
or vanished, ends with a slash."""

OTHERS = ""
"""The path of the newest change that is not listed, where too many paths changed."""
MOST_CHANGES = 500
"""Paths of one round whose times are recorded."""

MAKING = 2_000_000_000
"""Nanoseconds in which a new file, or a new cache folder, gets its first content."""

UNCERTAIN = 10_000_000
"""Nanoseconds by which the time of a change may lie before the time of another clock at
that moment."""

_COARSE = 1_000_000_000
_COARSE_STEP = 2 * _COARSE
"""Some file systems keep times in steps of one or two seconds."""

_LATEST = 1e11
"""Seconds; a later timestamp is in other units."""

SUITE_REPORTS = re.compile(
    r"(?:.*/)?(?:coverage\.(?:xml|json|lcov)|lcov\.info|junit[\w.-]*\.xml|test-(?:results?|reports?)\.xml|\.aider\..+)"
)
"""Reports that suites write, and files that an agent keeps of its own session."""
_CODE = re.compile(
    r".*\.(?:py[iwx]?|[cm]?[jt]sx?|go|rs|java|kts?|scala|cs|fs|c|cc|cpp|cxx|h|hh|hpp|m|mm|swift|rb|php|pl|lua|ex|exs|erl"
    r"|hs|ml|clj|r|jl|dart|vue|svelte|sh|bash|zsh|fish|ps1|sql|toml|cfg|ini|ya?ml|json5?|gradle|cmake|mk)"
    r"|(?:.*/)?(?:Makefile|GNUmakefile|Dockerfile|Rakefile|Gemfile|conftest[^/]*)"
)
_GIT = re.compile(r"\bgit\b")


def newest(times: ChangeTimes) -> dict[str, int]:
    """Return the times to record, newest first; those that are left out are one time
    for OTHERS.
    """
    ordered = sorted(times.items(), key=lambda entry: (-entry[1], entry[0]))
    kept, rest = ordered[:MOST_CHANGES], ordered[MOST_CHANGES:]
    return dict(kept) | ({OTHERS: rest[0][1]} if rest else {})


def start_of(timestamp: object) -> int | None:
    """Return a time before the tools of a message with this timestamp started, in
    nanoseconds since 1970.

    The timestamp is a text in ISO 8601, or seconds since 1970; local time without an
    offset. None for anything else.
    """
    seconds = (
        timestamp
        if isinstance(timestamp, int | float) and not isinstance(timestamp, bool)
        else None
    )
    if isinstance(timestamp, str):
        with contextlib.suppress(ValueError, OverflowError, OSError):
            seconds = datetime.fromisoformat(timestamp).timestamp()
    plausible = seconds is not None and 0 < seconds < _LATEST
    return (
        int(seconds * 1_000_000) * 1_000 - UNCERTAIN
        if plausible and seconds is not None
        else None
    )


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

    `written` are files that validators write.

    The reports of suites are results. A repository counts only for a command with the
    word git: a commit changes no file.
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
    """Return the paths that changed after the tool was started, up to the end of its
    round, sorted.

    `times` are those of the round; None if they are not known, as in logs of earlier
    versions. `differing` are paths with another content at the end of the round than
    before the tool; for a reported observation, than at the start of the round.
    """
    start, end, reported = item.started, item.ended, bool(item.reported_by)
    if times is None or (start is None and not reported):
        return tuple(
            sorted(
                path
                for path in differing
                if not is_git(path) and depends_on(item, path, written)
            )
        )
    # What is only reported rests on the times alone. The snapshots around a tool of the
    # runner show other changes; a time within it shows a change that was undone.
    files = set() if reported else {path for path in differing if not is_git(path)}
    folders = set()
    for path, at in times.items():
        if is_git(path):
            is_later = reported and path in differing and at > max(start or 0, end or 0)
        elif reported:
            may_be_later = (
                at % _COARSE == 0
                and at + _COARSE_STEP > (start or 0)
                and path in differing
            )
            is_later = at >= (start or 0) or may_be_later
        else:
            is_later = (start or 0) <= at <= (end or 0)
        if is_later and path.endswith("/") and not _has_file_of(path, at, times):
            folders.add(path.removeprefix("/") or "./")
        elif is_later and not path.endswith("/"):
            files.add(path)
    files = {path or "other files" for path in files if depends_on(item, path, written)}
    return tuple(sorted(files or folders))


def _has_file_of(folder: str, at: int, times: ChangeTimes) -> bool:
    """Return whether a file was made in a folder at that time: then its own time
    counts.
    """
    made = (
        path
        for path, time in times.items()
        if at <= time <= at + MAKING and path and not path.endswith("/")
    )
    return any(f"{posixpath.dirname(path)}/" == folder for path in made)
