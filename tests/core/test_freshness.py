"""The rule of freshness within a round, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from goalrunner.core.freshness import MOST_CHANGES, OTHERS, changed_after_start, newest
from goalrunner.core.observation import Observation

START, END = 5_000_000_100, 7_000_000_100
BEFORE, DURING, LATER = START - 50, START + 50, END + 50
COARSE = 4_000_000_000


def seen(command: str = "pytest -q", **more: object) -> Observation:
    return Observation.model_validate(
        {
            "id": "o1",
            "source": "shell",
            "round": 1,
            "command": command,
            "started": START,
            "ended": END,
            **more,
        }
    )


REPORTED = seen(reported_by="claude")
UNTIMED = seen(reported_by="claude", started=None, ended=None)


@pytest.mark.parametrize(
    ("item", "times", "differing", "found"),
    [
        # Reported, with a start that is known: only later changes count, also those that were changed back.
        (REPORTED, {}, [], ()),
        (REPORTED, {"a.py": BEFORE}, ["a.py"], ()),
        (REPORTED, {"a.py": DURING}, ["a.py"], ("a.py",)),
        (REPORTED, {"a.py": LATER}, [], ("a.py",)),
        (REPORTED, {"a.py": START}, [], ("a.py",)),
        # A folder in which something appeared and vanished. A file that was made there has its own time.
        (REPORTED, {"/": BEFORE, "src/": BEFORE}, ["src/gone.py"], ()),
        (REPORTED, {"src/": DURING}, [], ("src/",)),
        (REPORTED, {"src/": LATER}, ["src/gone.py"], ("src/",)),
        (REPORTED, {"src/": LATER, "src/a.py": LATER + 5}, [], ("src/a.py",)),
        (REPORTED, {"src/": DURING, "src/coverage.xml": DURING + 5}, [], ()),
        # Times in whole seconds: contents decide where the time cannot.
        (REPORTED, {"a.py": COARSE}, ["a.py"], ("a.py",)),
        (REPORTED, {"a.py": COARSE}, [], ()),
        (REPORTED, {"a.py": COARSE - 2_000_000_000}, ["a.py"], ()),
        # Without a start, the whole round counts.
        (UNTIMED, {"a.py": BEFORE}, [], ("a.py",)),
        (UNTIMED, {"src/": BEFORE}, [], ("src/",)),
        (UNTIMED, {}, [], ()),
        # Without times, as in earlier logs, contents decide.
        (REPORTED, None, ["a.py"], ("a.py",)),
        (REPORTED, None, [], ()),
        (seen(), None, ["a.py"], ("a.py",)),
        # Seen by the runner: the snapshots around the tool show other changes; a time within it shows an undone one.
        (seen(), {"a.py": DURING}, [], ("a.py",)),
        (seen(), {"a.py": BEFORE, "b.py": LATER, "src/": LATER}, [], ()),
        (seen(), {"/": DURING}, [], ("./",)),
        (seen(), {}, ["a.py"], ("a.py",)),
        (seen(started=None, ended=None), {"a.py": DURING}, [], ()),
        # More paths than are listed.
        (REPORTED, {OTHERS: LATER}, [], ("other files",)),
        (REPORTED, {OTHERS: BEFORE}, [], ()),
        # What validators write, and the reports of suites.
        (
            REPORTED,
            {"out/page.html": LATER, "sub/coverage.xml": LATER, "junit-1.xml": LATER},
            [],
            (),
        ),
        (
            seen(),
            {"out/page.html": DURING, "coverage.xml": DURING},
            ["out/page.html"],
            (),
        ),
        # A repository counts only for git, and only after the command.
        (REPORTED, {".git": LATER}, [".git"], ()),
        (
            seen("git log -1", reported_by="claude"),
            {".git": LATER},
            [".git"],
            (".git",),
        ),
        (seen("git commit -m x", reported_by="claude"), {".git": DURING}, [".git"], ()),
        (seen("git status", reported_by="claude"), {".git": LATER}, [], ()),
        (seen("git commit -m x"), {".git": DURING}, [".git"], ()),
    ],
)
def test_what_changed_after_a_tool_was_started(
    item: Observation,
    times: Mapping[str, int] | None,
    differing: Sequence[str],
    found: Sequence[str],
) -> None:
    assert changed_after_start(item, times, differing, {"out/page.html"}) == found


def test_of_many_changes_the_newest_are_kept_and_one_time_for_the_others() -> None:
    times = {f"f{number}": number for number in range(MOST_CHANGES + 10)}
    kept = newest(times)
    assert len(kept) == MOST_CHANGES + 1
    assert kept[OTHERS] == 9
    assert min(at for path, at in kept.items() if path) == 10
    assert newest({"a": 1}) == {"a": 1}
