from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.errors import GoalError, UsageError, WorkspaceError
from goalrunner.fleet.sources import Source, pack, unpack
from goalrunner.fleet.store import FleetStore
from tests.support.workspaces import git, listing, make_repository, write


@pytest.fixture
def store(tmp_path: Path) -> FleetStore:
    opened = FleetStore((tmp_path / "store").as_uri())
    opened.try_out()
    return opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"src/a.py": "a = 1\n", "gone.txt": "x\n", ".gitignore": "*.log\n"}
    return make_repository(tmp_path / "project", files)


def publish(project: Path) -> str:
    """Push it to a new remote; return the URL of that."""
    remote = project.with_name("remote.git")
    git(project, "init", "-q", "--bare", str(remote))
    git(project, "remote", "add", "origin", remote.as_uri())
    git(project, "push", "-q", "origin", "main")
    return remote.as_uri()


def change(project: Path) -> None:
    write(project, {"src/a.py": "a = 2\n", "new.txt": "new\n", "x.log": "ignored\n"})
    (project / "gone.txt").unlink()
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)


def state(project: Path) -> str:
    return git(project, "status", "--porcelain", "--untracked-files=all")


@pytest.mark.parametrize("is_published", [True, False])
def test_a_workspace_arrives_as_it_was(
    project: Path, store: FleetStore, tmp_path: Path, is_published: bool
) -> None:
    if is_published:
        publish(project)
    change(project)
    before = state(project)
    source = pack(project, store, "bundles/one")
    made = unpack(source, store, tmp_path / "elsewhere" / "project")
    assert bool(source.repository) == is_published
    assert state(project) == before
    expected = listing(project)
    del expected["x.log"]
    assert listing(made) == expected
    assert state(made) == before
    assert git(made, "rev-parse", "HEAD") == git(project, "rev-parse", "HEAD")
    assert git(project, "for-each-ref", "refs/goal-fleet") == ""


def test_an_unchanged_published_workspace_needs_no_bundle(
    project: Path, store: FleetStore, tmp_path: Path
) -> None:
    url = publish(project)
    source = pack(project / "src", store, "bundles/one")
    head = git(project, "rev-parse", "HEAD").strip()
    assert source == Source(url, head, "", "src")
    assert list((tmp_path / "store").iterdir()) == []
    made = unpack(source, store, tmp_path / "elsewhere" / "project")
    assert (made / "a.py").read_text() == "a = 1\n"


def test_commits_that_no_remote_has_are_in_the_bundle(
    project: Path, store: FleetStore, tmp_path: Path
) -> None:
    publish(project)
    change(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "local")
    source = pack(project, store, "bundles/one")
    made = unpack(source, store, tmp_path / "elsewhere" / "project")
    assert git(made, "log", "--format=%s") == "local\none\n"


def test_the_bundle_of_a_small_change_is_small(
    project: Path, store: FleetStore, tmp_path: Path
) -> None:
    write(project, {f"big{number}.txt": f"{number}\n" * 9999 for number in range(50)})
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "big")
    publish(project)
    change(project)
    pack(project, store, "bundles/one")
    assert (tmp_path / "store" / "bundles" / "one").stat().st_size < 2000


def test_a_workspace_that_exists_is_left_alone(
    project: Path, store: FleetStore, tmp_path: Path
) -> None:
    source = pack(project, store, "bundles/one")
    made = unpack(source, store, tmp_path / "elsewhere" / "project")
    (made / "work.txt").write_text("of the agent\n")
    assert unpack(source, store, tmp_path / "elsewhere" / "project") == made
    assert (made / "work.txt").exists()


def test_what_a_killed_process_left_is_replaced(
    project: Path, store: FleetStore, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere" / "project.new", {"half": "x"})
    source = pack(project, store, "bundles/one")
    made = unpack(source, store, tmp_path / "elsewhere" / "project")
    assert not (made / "half").exists()


def test_a_folder_without_a_repository_is_refused(
    tmp_path: Path, store: FleetStore
) -> None:
    with pytest.raises(UsageError, match="is in no git repository"):
        pack(tmp_path, store, "bundles/one")


@pytest.mark.parametrize(
    "source",
    [
        Source("file:///nowhere.git", "0" * 40, "", "."),
        Source("", "0" * 40, "bundles/lost", "."),
    ],
)
def test_a_source_that_is_gone_is_an_error_and_leaves_nothing(
    source: Source, store: FleetStore, tmp_path: Path
) -> None:
    with pytest.raises(GoalError):
        unpack(source, store, tmp_path / "elsewhere" / "project")
    assert not (tmp_path / "elsewhere" / "project").exists()


def test_a_damaged_bundle_is_an_error(
    project: Path, store: FleetStore, tmp_path: Path
) -> None:
    source = pack(project, store, "bundles/one")
    (tmp_path / "store" / "bundles" / "one").write_bytes(b"damaged")
    with pytest.raises(WorkspaceError, match="bundle"):
        unpack(source, store, tmp_path / "elsewhere" / "project")
