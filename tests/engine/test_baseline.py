"""What a run finds before any work is done. Real checks in the check environment of this machine; no token is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.core import events
from tests.support.arena import CALC, RIGHT, Arena

MADE = {"a.txt": "a\n", ".gitignore": "build/\n", "build/run.sh": "true\n"}
"""A project whose check needs an ignored file that was made before the run."""


def _goal(run: str, **more: Any) -> dict[str, Any]:
    return {
        "objective": "Do it.",
        "validators": [{"name": "check", "run": run}],
        "max_iterations": 1,
        **more,
    }


@pytest.mark.parametrize("check", [None, "in-place"])
async def test_a_green_baseline_completes_before_round_1_if_the_goal_says_so(
    tmp_path: Path, check: str | None
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    ending = await arena.fight(
        (), **_goal("test -e a.txt", workspace={"check": check}, baseline="complete")
    )
    assert (ending.how, ending.rounds, ending.outcome.labels) == (
        ("complete", "satisfied", 1),
        0,
        (),
    )


@pytest.mark.parametrize(
    ("command", "labels"), [("true", ("nothing changed",)), ("echo b > b.txt", ())]
)
async def test_a_green_baseline_is_no_work(
    tmp_path: Path, command: str, labels: tuple[str, ...]
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    ending = await arena.fight(
        ({"name": "shell", "arguments": {"command": command}},),
        **_goal("test -e a.txt"),
    )
    assert (ending.how, ending.rounds, ending.outcome.labels) == (
        ("complete", "satisfied", 1),
        1,
        labels,
    )


FEATURE = (
    "def add(a, b):\n    return a + b\n\n\ndef count(items):\n    return len(items)\n"
)
COUNTS = "from calc import count\n\n\ndef test_count():\n    assert count([1]) == 1\n"
ADDS = "from calc import add\n\n\ndef test_add_more():\n    assert add(2, 2) == 4\n"


def _writes(**files: str) -> tuple[dict[str, Any], ...]:
    names = {"feature": "src/calc.py", "test": "tests/test_more.py"}
    return tuple(
        {"name": "write_file", "arguments": {"path": names[name], "content": text}}
        for name, text in files.items()
    )


@pytest.mark.parametrize(
    ("work", "labels"),
    [
        (_writes(feature=FEATURE, test=COUNTS), ()),
        pytest.param(
            _writes(feature=FEATURE, test=ADDS),
            ("checks passed before the change",),
            marks=pytest.mark.slow,
        ),
        (_writes(test=ADDS), ("checks passed before the change",)),
        pytest.param(_writes(feature=FEATURE), (), marks=pytest.mark.slow),
    ],
    ids=[
        "a feature and its test",
        "a test of what was there",
        "a test alone",
        "no test",
    ],
)
async def test_tests_that_were_added_to_green_ones_show_the_work_if_they_fail_without_it(
    tmp_path: Path, work: tuple[dict[str, Any], ...], labels: tuple[str, ...]
) -> None:
    arena = Arena(tmp_path)
    arena.write({**CALC, "src/calc.py": RIGHT})
    ending = await arena.fight(work, **_goal("pytest -q"))
    assert (ending.how, ending.outcome.labels) == (("complete", "satisfied", 1), labels)


async def test_ignored_files_of_the_start_are_visible(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    arena.write(MADE)
    ending = await arena.fight((), **_goal("sh build/run.sh", baseline="complete"))
    assert (ending.how, ending.rounds) == (("complete", "satisfied", 1), 0)


async def test_with_protected_paths_build_output_is_hidden_and_the_line_that_helps_is_named(
    tmp_path: Path,
) -> None:
    arena = Arena(tmp_path)
    arena.write({**MADE, "tests/notes": "x"})
    goal = _goal(
        "sh build/run.sh", workspace={"protect": ["tests/**"], "check": "overlay"}
    )
    ending = await arena.fight((), **goal)
    assert ending.how == ("failed", "environment_failed", 0)
    assert (ending.rounds, ending.outcome.usage) == (0, {})
    said, line = (
        ending.outcome.message.splitlines()[0],
        ending.outcome.message.splitlines()[-1],
    )
    assert said.startswith(
        "validator check cannot work in the check environment (overlay): "
    )
    assert line == 'add to the goal file: [workspace] dependencies = ["build"]'
    helped = Arena(tmp_path / "again")
    helped.write({**MADE, "tests/notes": "x"})
    goal["workspace"]["dependencies"] = ["build"]
    assert (await helped.fight((), **goal)).how == ("complete", "satisfied", 1)


async def test_a_red_check_that_misses_nothing_is_the_agents_to_mend(
    tmp_path: Path,
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    ending = await arena.fight(
        ({"name": "shell", "arguments": {"command": "echo b > b.txt"}},),
        **_goal("test -e b.txt"),
    )
    assert (ending.how, ending.rounds) == (("complete", "satisfied", 1), 1)
    (baseline,) = [
        item.event
        for item in ending.records
        if isinstance(item.event, events.BaselineTaken)
    ]
    assert baseline.standing == "red"


@pytest.mark.parametrize("check", ["overlay", "in-place"])
async def test_checks_change_no_file_of_the_workspace(
    tmp_path: Path, check: str
) -> None:
    """In place, new files stay; in an overlay, nothing does."""
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    goal = _goal(
        "echo report > report.xml; echo more >> a.txt", workspace={"check": check}
    )
    ending = await arena.fight((), **goal)
    assert ending.how == ("complete", "satisfied", 1)
    new = ["report.xml"] if check == "in-place" else []
    assert sorted(path.name for path in arena.workspace.iterdir()) == ["a.txt", *new]
    assert (arena.workspace / "a.txt").read_text() == "a\n"


@pytest.mark.parametrize("check", ["overlay", "in-place"])
async def test_declared_outputs_are_copied_back(tmp_path: Path, check: str) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    config = {"check": check, "outputs": ["report.xml"]}
    ending = await arena.fight(
        (), **_goal("echo report > report.xml; echo x > other", workspace=config)
    )
    assert ending.how == ("complete", "satisfied", 1)
    others = ["other"] if check == "in-place" else []
    assert sorted(path.name for path in arena.workspace.iterdir()) == [
        "a.txt",
        *others,
        "report.xml",
    ]


async def test_a_program_that_the_machine_lacks_fails_the_run(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    ending = await arena.fight((), **_goal("no-such-program-here --check"))
    assert ending.how == ("failed", "validator_missing", 0)
    assert "no-such-program-here" in ending.outcome.message


NEW_TEST = "def test_new():\n    pass\n"


@pytest.mark.parametrize(
    ("line", "files", "said"),
    [
        ("pytset -q", {}, "install pytset, or name another program"),
        (
            "pytest -q --cov",
            {"test_a.py": NEW_TEST},
            "install its plugin, or remove it from the goal file",
        ),
        ("./check.sh", {"check.sh": "true\n"}, "chmod +x ./check.sh"),
    ],
)
@pytest.mark.slow
async def test_what_only_a_person_can_correct_ends_the_run_before_round_1(
    tmp_path: Path, line: str, files: dict[str, str], said: str
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n", **files})
    ending = await arena.fight((), **_goal(line))
    assert (ending.how, ending.rounds) == (("failed", "validator_missing", 0), 0)
    assert said in ending.outcome.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "work"),
    [
        ("pytest -q tests/test_new.py", {"tests/test_new.py": NEW_TEST}),
        ("pytest -q", {"test_new.py": NEW_TEST}),
        (
            "pytest -q --runslow",
            {
                "conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--runslow', action='store_true')\n",
                "test_new.py": NEW_TEST,
            },
        ),
        ("python3 -m mytool", {"mytool.py": "print('hi')\n"}),
        ("sh check.sh", {"check.sh": "true\n"}),
    ],
)
async def test_what_the_work_is_to_bring_is_a_red_baseline(
    tmp_path: Path, line: str, work: dict[str, str]
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    writes = [
        {"name": "write_file", "arguments": {"path": name, "content": text}}
        for name, text in work.items()
    ]
    ending = await arena.fight(tuple(writes), **_goal(line))
    assert (ending.how, ending.rounds) == (("complete", "satisfied", 1), 1)


async def test_ignored_files_that_a_round_made_and_a_check_needs_are_a_label(
    tmp_path: Path,
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n", ".gitignore": "made/\n"})
    ending = await arena.fight(
        ({"name": "shell", "arguments": {"command": "mkdir made; echo 1 > made/it"}},),
        **_goal("test -e made/it"),
    )
    assert ending.how == ("complete", "satisfied", 1)
    assert ending.outcome.labels == ("rests on changed files: made",)


async def test_a_check_that_is_red_with_the_originals_names_what_the_agent_changed(
    tmp_path: Path,
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n", "tests/t": "strict\n"})
    ending = await arena.fight(
        ({"name": "shell", "arguments": {"command": "echo lax > tests/t"}},),
        **_goal("grep -q lax tests/t", workspace={"protect": ["tests/**"]}),
    )
    assert ending.how == ("capped", "max_iterations", 1)
    feedback = ending.outcome.attempts[-1].feedback or ""
    assert feedback.startswith("validator check: exit 0; exit 1 with the originals")
    assert feedback.endswith(
        "The validators ran with the original content of these files, not as you changed them:\n"
        '- tests/t (changed; protect = "tests/**")'
    )


async def test_a_hidden_validator_runs_in_the_baseline_and_completes_nothing_that_is_red(
    tmp_path: Path,
) -> None:
    arena = Arena(tmp_path)
    arena.write({"a.txt": "a\n"})
    hidden = {"name": "hush", "run": "test -e b.txt", "hidden": True}
    goal = _goal("test -e a.txt")
    goal["validators"].append(hidden)
    ending = await arena.fight(
        ({"name": "shell", "arguments": {"command": "touch b.txt"}},), **goal
    )
    assert (ending.how, ending.rounds) == (("complete", "satisfied", 1), 1)
    assert "hush" not in ending.told()
