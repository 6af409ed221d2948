"""What a run says before any work is done, where its checks cannot tell anything. Real checks, no token is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.arena import Arena


def _goal(run: str, **more: Any) -> dict[str, Any]:
    return {"objective": "Do it.", "validators": [{"name": "check", "run": run}], "max_iterations": 1, **more}


@pytest.mark.parametrize(
    ("files", "run", "said"),
    [
        (
            {"a.txt": "a\n", ".gitignore": "deps/\n.pytest_cache/\n*.env\n", "deps/lib": "1\n", "local.env": "1\n"},
            "test -e deps/lib",
            (
                "validator check is green in the workspace (exit 0) and red in a clean checkout of it (exit 1)",
                "name it in [workspace] link, make it with [workspace] setup, or set clean_proof = false",
                "ignored, so not there: deps/, local.env",
            ),
        ),
        (
            {"a.txt": "a\n"},
            "date +%N > report.xml; false",
            (
                'the checks changed report.xml; if they may, the goal file says so: [workspace] outputs = ["report.xml"]',
            ),
        ),
    ],
)
async def test_checks_that_differ_fail_the_run_and_name_paths_and_the_line_that_helps(
    tmp_path: Path, files: dict[str, str], run: str, said: tuple[str, ...]
) -> None:
    arena = Arena(tmp_path)
    arena.write(files)
    ending = await arena.fight((), **_goal(run))
    assert ending.how == ("failed", "baseline_differs", 0)
    assert ending.rounds == 0
    assert ending.outcome.usage == {}
    for words in said:
        assert words in ending.outcome.message


async def test_what_is_linked_is_there(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n", ".gitignore": "deps/\n", "deps/lib": "1\n"})
    ending = await arena.fight((), **_goal("test -e deps/lib", workspace={"link": ["deps"]}))
    assert ending.how == ("complete", "satisfied", 1)
    assert ending.rounds == 0


async def test_a_program_that_the_machine_lacks_fails_the_run(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    ending = await arena.fight((), **_goal("no-such-program-here --check"))
    assert ending.how == ("failed", "validator_missing", 0)
    assert "no-such-program-here" in ending.outcome.message


async def test_a_check_that_is_red_in_the_clean_checkout_alone_says_what_it_lacks(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n", ".gitignore": "made/\n"})
    ending = await arena.fight(
        ({"name": "shell", "arguments": {"command": "mkdir made; echo 1 > made/it"}},), **_goal("test -e made/it")
    )
    assert ending.how == ("capped", "max_iterations", 1)
    assert ending.why("ignored, so not there: made/")
    assert ending.why("([workspace] setup or link), or it is red at random ([[validators]] retries = 1)")


async def test_a_check_that_is_red_because_of_what_was_undone_says_that_it_is_green_here_and_names_all_of_it(
    tmp_path: Path,
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n", ".gitignore": "made/\n", "tests/t": "strict\n"})
    command = "mkdir made; echo 1 > made/it; echo lax > tests/t"
    ending = await arena.fight(
        ({"name": "shell", "arguments": {"command": command}},),
        **_goal("grep -q lax tests/t", workspace={"protect": ["tests/**"]}),
    )
    assert ending.how == ("capped", "max_iterations", 1)
    for words in (
        "the clean checkout has what is protected as it was at the start:",
        'tests/t was changed; protect = "tests/**"',
        '[workspace] allow = ["tests/t"]',
        "ignored, so not there: made/ ([workspace] setup or link brings it)",
    ):
        assert ending.why(words), words
    feedback = ending.outcome.attempts[-1].feedback or ""
    assert "validator check is red in a clean checkout, though it is green in the workspace: exit 1" in feedback
    assert "tests/t was changed" in feedback
