"""What validators do stays in the check environment; what else changes the workspace meanwhile is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import WorkspaceError
from goalrunner.core.events import ValidatorsFinished
from tests.adversarial.cases import CAPPED, COMPLETE
from tests.support.arena import CONFIG, Arena, committed
from tests.support.recordings import shell
from tests.support.workspaces import git

_DONE = (shell("touch done"),)
kinds = pytest.mark.parametrize("kind", ["overlay", "in-place"])


def _goal(run: str, **workspace: Any) -> dict[str, Any]:
    return {
        "objective": "Make done.",
        "validators": [{"name": "check", "run": run}],
        "workspace": workspace,
    }


@contextlib.contextmanager
def _service(arena: Arena) -> Iterator[None]:
    """Append to a.txt all the time, from the moment at which a check asks for it."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            if (arena.folder / "asked").exists():
                with (arena.workspace / "a.txt").open("a") as file:
                    file.write("more\n")
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@kinds
async def test_existing_files_that_a_validator_writes_stay_as_they_are(
    kind: str, arena: Arena
) -> None:
    arena.write({"a.txt": "a\n", "tests/t.sh": "exit 0\n"})
    check = "test -e done && echo changed > a.txt && rm -r tests && touch new"
    ending = await arena.fight(_DONE, **_goal(check, check=kind))
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert (arena.workspace / "a.txt").read_text() == "a\n"
    made = ["new"] if kind == "in-place" else []
    assert sorted(path.name for path in arena.workspace.iterdir()) == [
        "a.txt",
        "done",
        *made,
        "tests",
    ]
    *_, checked = [
        one.event for one in ending.records if isinstance(one.event, ValidatorsFinished)
    ]
    assert checked.left == tuple(made)
    assert ending.outcome.labels == ("validators changed files: a.txt",)
    assert ending.outcome.changes is not None
    assert ending.outcome.changes.files == 1


async def test_commits_and_hooks_of_a_validator_do_not_reach_the_repository(
    arena: Arena,
) -> None:
    arena.write({"a.txt": "a\n"})
    committed(arena)
    before = git(arena.workspace, "rev-parse", "HEAD")
    check = (
        "test -e done && git add -A && git commit -qm check && git tag late && git config core.pager x "
        "&& printf '#!/bin/sh\\n' > .git/hooks/pre-commit"
    )
    ending = await arena.fight(_DONE, **_goal(check))
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert git(arena.workspace, "rev-parse", "HEAD") == before
    assert git(arena.workspace, "tag") == ""
    assert "pager" not in (arena.workspace / ".git/config").read_text()
    assert not (arena.workspace / ".git/hooks/pre-commit").exists()


async def test_in_place_a_commit_of_a_validator_is_real_and_no_change_of_the_agent(
    arena: Arena,
) -> None:
    arena.write({"a.txt": "a\n"})
    committed(arena)
    check = "git -c user.name=v -c user.email=v@x commit -q --allow-empty -m check && test -e done"
    ending = await arena.fight(_DONE, **_goal(check, check="in-place"))
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert git(arena.workspace, "log", "-1", "--format=%s") == "check\n"


async def test_in_place_a_filter_of_the_agent_is_refused_with_its_name(
    arena: Arena,
) -> None:
    arena.write({"a.txt": "bad\n"})
    committed(arena)
    steering = shell(
        'git config filter.fix.smudge "sed s/bad/good/"; echo "* filter=fix" > .git/info/attributes'
    )
    check = "rm a.txt; git checkout -- a.txt && grep good a.txt"
    ending = await arena.fight(
        (steering,), max_iterations=1, **_goal(check, check="in-place")
    )
    assert ending.how == (*CAPPED, 1)
    assert any(
        ".git/config (filter.fix.smudge), .git/info/attributes" in line
        for line in ending.reasons
    )


@kinds
async def test_outputs_are_copied_into_the_workspace(kind: str, arena: Arena) -> None:
    arena.write({"a.txt": "a\n"})
    check = "mkdir -p build; echo report > build/report.xml; echo other > build/other; test -e done"
    ending = await arena.fight(
        _DONE, **_goal(check, check=kind, outputs=["build/report.xml"])
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert (arena.workspace / "build/report.xml").read_text() == "report\n"
    assert (arena.workspace / "build/other").exists() is (kind == "in-place")


async def test_outputs_are_not_copied_through_a_link(arena: Arena) -> None:
    """The agent links the folder of the report to one outside of the workspace."""
    arena.write({"a.txt": "a\n"})
    (arena.folder / "outside").mkdir()
    check = "test -e done && rm build && mkdir build && echo report > build/report.xml"
    ending = await arena.fight(
        (shell("touch done; ln -s ../outside build"),),
        **_goal(check, outputs=["build/report.xml"]),
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert (arena.workspace / "build").is_symlink()
    assert list((arena.folder / "outside").iterdir()) == []


async def test_a_process_that_writes_while_the_checks_run_blocks_the_run(
    arena: Arena,
) -> None:
    """A service of the machine writes into the workspace as soon as a check runs."""
    arena.write({"a.txt": "a\n"})
    check = f"test -e done && echo x >> {arena.folder}/asked && sleep 0.3"
    with _service(arena):
        ending = await arena.fight(_DONE, **_goal(check))
    assert ending.how[:2] == ("blocked", "evidence_unstable"), ending.reasons
    assert ending.why("the workspace changed while it was checked: a.txt")


@kinds
async def test_a_process_that_the_agent_left_is_gone_before_the_checks(
    kind: str, arena: Arena
) -> None:
    arena.write({"a.txt": "a\n"})
    leave = shell(
        "printf 'n=0; while true; do n=$((n+1)); echo $n > count; sleep 0.02; done' > ../loop.sh; "
        "(env -i setsid sh ../loop.sh >/dev/null 2>&1 &) ; until [ -s count ]; do sleep 0.02; done"
    )
    check = "test -e count && was=$(cat count) && sleep 0.3 && test $was = $(cat count)"
    ending = await arena.fight((leave,), **_goal(check, check=kind))
    assert ending.how == (*COMPLETE, 1), ending.reasons
    was = (arena.workspace / "count").read_text()
    await asyncio.sleep(0.1)
    assert (arena.workspace / "count").read_text() == was


async def test_two_runs_in_one_workspace_are_refused_whatever_their_home_is(
    arena: Arena,
) -> None:
    arena.write({"a.txt": "a\n"})
    second = Arena(arena.folder / "second")
    second.workspace = arena.workspace
    refused: list[str] = []

    class Starts:
        """A person who starts another run while the first one waits for a decision."""

        async def approve(self, request: Any) -> None:
            with pytest.raises(WorkspaceError) as caught:
                await second.fight(_DONE, **_goal("test -e done"))
            refused.append(str(caught.value))

        async def answer(self, question: str) -> None:
            """There are no questions."""

    ending = await arena.fight(
        _DONE,
        approver=Starts(),
        **_goal("test -e done"),
        approvals={"require": ["complete"]},
    )
    assert ending.how[:2] == ("blocked", "approval_required"), ending.reasons
    assert refused[0].startswith(f"another run is active in {arena.workspace}")
    assert not list((second.home / "runs").glob("*"))


@kinds
async def test_a_red_hidden_validator_completes_nothing(
    kind: str, arena: Arena
) -> None:
    arena.write({"a.txt": "a\n"})
    goal = _goal("test -e done", check=kind)
    goal["validators"].append(
        {"name": "secret", "run": "grep -q q7 done", "hidden": True}
    )
    ending = await arena.fight(_DONE, (), **goal)
    assert ending.how == (*CAPPED, 2), ending.reasons
    assert "q7" not in ending.told()
    assert "secret" not in ending.told()


@kinds
async def test_git_works_in_a_workspace_below_the_root_of_its_repository(
    kind: str, arena: Arena
) -> None:
    arena.write({"a.txt": "a\n"})
    (arena.folder / ".gitignore").write_text("/home/\n/user/\n")
    git(arena.folder, "init", "-q", "-b", "main")
    git(arena.folder, "add", "-A")
    git(arena.folder, "commit", "-q", "-m", "start")
    ending = await arena.fight(
        _DONE, **_goal("test -e done && git ls-files --error-unmatch a.txt", check=kind)
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons


@kinds
async def test_configuration_above_the_workspace_is_that_of_the_start(
    kind: str, tmp_path: Path
) -> None:
    arena = Arena(tmp_path, "repository/part")
    arena.write(
        {
            "test_a.py": "def test_a():\n    import done\n",
            "../pyproject.toml": CONFIG,
            "../tox.ini": "[tox]\n",
        }
    )
    git(arena.workspace.parent, "init", "-q", "-b", "main")
    hook = "def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n"
    plant = shell(
        f"printf '{hook}' > ../conftest.py; printf '[pytest]\\naddopts = --co\\n' > ../tox.ini; echo > notes"
    )
    honest = shell(
        "printf '[project]\\nname = \"a\"\\n' >> ../pyproject.toml; touch done.py"
    )
    ending = await arena.fight((plant,), (honest,), **_goal("pytest -q", check=kind))
    assert ending.how == (*COMPLETE, 2), ending.reasons
    assert (arena.workspace / "../conftest.py").read_text() == hook
    *_, checked = [
        one.event for one in ending.records if isinstance(one.event, ValidatorsFinished)
    ]
    assert checked.protected_changes == (
        "../conftest.py (changed; above the workspace)",
        "../tox.ini (changed; above the workspace)",
    )


@kinds
async def test_setup_installs_for_checks_and_is_no_change_of_the_agent(
    kind: str, arena: Arena
) -> None:
    arena.write({".gitignore": "packages/\n", "a.txt": "a\n"})
    committed(arena)
    setup = f"mkdir -p packages; cp a.txt packages/a; echo made > tool.txt; echo >> {arena.folder}/calls"
    goal = _goal(
        "test -e done && test -e packages/a && test -e tool.txt",
        check=kind,
        setup=setup,
    )
    for labels in ((), ("nothing changed",)):
        ending = await arena.fight(_DONE, **goal)
        assert ending.how == (*COMPLETE, 1), ending.reasons
        assert ending.outcome.labels == labels
    assert (arena.workspace / "packages/a").exists() is (kind == "in-place")


@kinds
async def test_setup_runs_again_when_its_inputs_change(kind: str, arena: Arena) -> None:
    arena.write({".gitignore": "packages/\n", "package.json": '{"name": "a"}\n'})
    committed(arena)
    setup = "mkdir -p packages; cp package.json packages/installed"
    goal = _goal("grep -q wanted packages/installed", check=kind, setup=setup)
    work = (
        shell(
            """echo '{"name": "a", "dependencies": {"wanted": "1"}}' > package.json"""
        ),
    )
    ending = await arena.fight(work, **goal)
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert ending.outcome.labels == ("dependencies changed: package.json",)


async def test_a_check_that_renames_a_folder_of_the_start_runs_in_place(
    arena: Arena,
) -> None:
    arena.write({"dist/a.txt": "a\n"})
    rename = "python3 -c \"import os; os.rename('dist', 'old')\""
    ending = await arena.fight(
        _DONE,
        **_goal(f"test -e done && {rename} && test -e old/a.txt", check="overlay"),
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert ending.outcome.labels == ("flaky: check",)
    assert (arena.workspace / "dist" / "a.txt").read_text() == "a\n"
    assert (arena.workspace / "old" / "a.txt").exists(), (
        "it is a new file of a check in place"
    )


@kinds
async def test_a_file_that_a_validator_rewrites_is_named(
    kind: str, arena: Arena
) -> None:
    arena.write({"a.txt": "bad\n"})
    ending = await arena.fight(
        _DONE,
        **_goal(
            "test -e done && sed -i s/bad/good/ a.txt && grep good a.txt", check=kind
        ),
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert ending.outcome.labels == ("validators changed files: a.txt",)
    assert (arena.workspace / "a.txt").read_text() == "bad\n"


@kinds
@pytest.mark.parametrize("path", ["tests/test_a.py", "pytest.ini"])
async def test_a_validator_that_rewrites_checks_is_refused_before_round_1(
    kind: str, path: str, arena: Arena
) -> None:
    arena.write(
        {
            "tests/test_a.py": "def test_a(): pass\n",
            "pytest.ini": "[pytest]\n",
            "tests/a.snap": "a\n",
        }
    )
    goal = _goal(
        f"python3 -m pytest -q tests && echo '#' >> {path}; echo x >> tests/a.snap",
        check=kind,
    )
    ending = await arena.fight(_DONE, **goal)
    assert ending.how == ("failed", "environment_failed", 0)
    said = "\n".join(ending.reasons)
    assert f"validators rewrite {path}, with which the work is checked" in said
    assert f'[workspace] allow = ["{path}"]' in said


@kinds
async def test_a_validator_that_rewrites_changed_checks_is_red(
    kind: str, arena: Arena
) -> None:
    arena.write({"tests/test_a.py": "def test_a():\n    pass\n"})
    goal = _goal("test -e done && sed -i 's/  *$//' tests/test_a.py", check=kind)
    work = (
        shell(
            "touch done; printf 'def test_a():\n    pass\n\ndef test_b():  \n    pass\n' > tests/test_a.py"
        ),
    )
    ending = await arena.fight(work, max_iterations=1, **goal)
    assert ending.how == (*CAPPED, 1)
    assert any("validators rewrite tests/test_a.py" in line for line in ending.reasons)


@kinds
async def test_a_report_that_a_validator_rewrites_is_not_named(
    kind: str, arena: Arena
) -> None:
    arena.write({"a.txt": "a\n"})
    goal = _goal("test -e done && date +%N > coverage.xml", check=kind)
    for labels in ((), ("nothing changed",)):
        ending = await arena.fight(_DONE, **goal)
        assert (ending.how, ending.outcome.labels) == ((*COMPLETE, 1), labels), (
            ending.reasons
        )
        arena.write({"coverage.xml": "of a run of the user\n"})


async def test_a_cache_that_a_validator_rewrites_is_not_named(arena: Arena) -> None:
    cache = {".pytest_cache/.gitignore": "*\n", ".pytest_cache/v/lastfailed": "{}\n"}
    arena.write({"a.txt": "a\n", ".mypy_cache/b": "b\n", **cache})
    check = (
        "test -e done && echo x > .pytest_cache/v/lastfailed && echo x > .mypy_cache/b"
    )
    ending = await arena.fight(_DONE, **_goal(check, check="overlay"))
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert ending.outcome.labels == ()


@kinds
async def test_what_one_validator_writes_does_not_decide_a_hidden_one(
    kind: str, arena: Arena
) -> None:
    arena.write({"tests/hidden.sh": "exit 1\n"})
    goal = _goal(
        "test -e done && echo exit 0 > tests/hidden.sh",
        check=kind,
        protect=["tests/**"],
    )
    goal["validators"].append(
        {"name": "secret", "run": "sh tests/hidden.sh", "hidden": True}
    )
    ending = await arena.fight(_DONE, max_iterations=1, **goal)
    assert ending.how == (*CAPPED, 1)


@pytest.mark.parametrize("ignored", ["cheat", "other"])
async def test_files_that_a_check_in_place_wrote_do_not_exist_in_the_next_one(
    arena: Arena, ignored: str
) -> None:
    arena.write({".gitignore": f"{ignored}\n", "a.txt": "a\n"})
    # The first round writes the file; the second would be green with it.
    check = "test -e second && test -e cheat && exit 0; test -e done && echo x > cheat; exit 1"
    ending = await arena.fight(
        _DONE,
        (shell("touch second"),),
        max_iterations=2,
        **_goal(check, check="in-place"),
    )
    assert ending.how == (*CAPPED, 2), ending.reasons
