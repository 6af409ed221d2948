"""What the header says of a workspace, by real git; nothing that a repository has configured runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from goalrunner.snapshots.repositories import describe


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@x"]
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        env=environ,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "parser"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("a = 1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_a_clean_repository(repository: Path) -> None:
    assert describe(repository) == "git, clean"


@pytest.mark.parametrize("name", ["src/a.py", "src/new.py"])
def test_a_change_makes_it_unclean(repository: Path, name: str) -> None:
    (repository / name).write_text("b = 2\n")

    assert describe(repository) == "git, uncommitted changes"


@pytest.mark.parametrize("folder", [".", "src"])
def test_a_new_goal_file_is_no_change_of_a_person(
    repository: Path, folder: str
) -> None:
    (repository / folder / "goal.toml").write_text('objective = "x"\n')
    assert describe(repository) == "git, clean"

    (repository / folder / "a-goal.toml").touch()
    assert describe(repository) == "git, uncommitted changes"


def test_a_changed_goal_file_is_a_change(repository: Path) -> None:
    (repository / "goal.toml").touch()
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    (repository / "goal.toml").write_text('objective = "x"\n')

    assert describe(repository) == "git, uncommitted changes"


def test_only_the_workspaces_own_part_of_a_repository_counts(repository: Path) -> None:
    (repository / "new.py").write_text("")

    assert describe(repository / "src") == "git, clean"


def test_a_detached_head(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")

    assert describe(repository) == "git, clean"


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")

    assert describe(tmp_path) == "git, clean"


def test_a_plain_folder(tmp_path: Path) -> None:
    assert describe(tmp_path) == "no git"


def test_without_git_a_repository_is_still_seen(repository: Path) -> None:
    assert describe(repository, environ={"PATH": "/nowhere"}) == "git"


def test_a_slow_git_is_not_waited_for(repository: Path, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o755)

    environ = {"PATH": f"{slow.parent}:{os.environ['PATH']}"}
    assert describe(repository, environ=environ, timeout=0.1) == "git"


def test_the_callers_git_variables_do_not_count(
    repository: Path, tmp_path: Path
) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_WORK_TREE": str(tmp_path),
    }

    assert describe(repository, environ=environ) == "git, clean"


def test_nothing_that_the_repository_has_configured_runs(
    repository: Path, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    index = (repository / ".git" / "index").stat().st_mtime_ns
    os.utime(repository / "src" / "a.py")

    assert describe(repository) == "git, clean"

    assert not (tmp_path / "sprung").exists()
    assert (repository / ".git" / "index").stat().st_mtime_ns == index


@pytest.mark.parametrize("kind", ["clean", "process"])
@pytest.mark.parametrize("name", ["x", "a=b.c"])
def test_a_filter_of_the_repository_does_not_run(
    repository: Path, tmp_path: Path, kind: str, name: str
) -> None:
    ran = tmp_path / "ran"
    git(repository, "config", f"filter.{name}.{kind}", f"touch {ran} && cat")
    git(repository, "config", f"filter.{name}.required", "true")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text(f"* filter={name}\n")
    (repository / "src" / "a.py").touch()

    assert describe(repository) == "git, clean"
    assert not ran.exists()


def test_what_a_submodule_has_configured_does_not_run(
    repository: Path, tmp_path: Path
) -> None:
    ran, inner = tmp_path / "ran", repository / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "a.txt").write_text("a\n")
    git(inner, "add", "a.txt")
    git(inner, "commit", "-q", "-m", "one")
    git(repository, "add", "inner")
    git(repository, "commit", "-q", "-m", "two")
    git(inner, "config", "filter.x.clean", f"touch {ran} && cat")
    (inner / ".git" / "info").mkdir(exist_ok=True)
    (inner / ".git" / "info" / "attributes").write_text("* filter=x\n")
    (inner / "a.txt").touch()

    assert describe(repository) == "git, clean"
    assert not ran.exists()
