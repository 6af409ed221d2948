"""Base and head of a change, in real repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.receipts.revisions import Revisions, commit_of_work_tree
from tests.support.workspaces import git, make_repository, write


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose branch `fix` is one commit ahead of `main`."""
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    git(root, "switch", "-q", "-c", "fix")
    write(root, {"a": "2\n"})
    git(root, "commit", "-q", "-a", "-m", "two")
    return root


def commit(root: Path, name: str) -> str:
    return git(root, "rev-parse", name).strip()


def revisions(root: Path) -> Revisions:
    return Revisions(root, os.environ)


def test_the_base_is_where_the_head_left_the_default_branch(repository: Path) -> None:
    change = revisions(repository).change(None, "fix")

    assert change.base == commit(repository, "main")
    assert change.head == commit(repository, "fix")
    assert not change.notes


def test_later_commits_of_the_base_do_not_count(repository: Path) -> None:
    fork = commit(repository, "main")
    git(repository, "switch", "-q", "main")
    write(repository, {"b": "1\n"})
    git(repository, "add", "b")
    git(repository, "commit", "-q", "-m", "later")

    change = revisions(repository).change("main", "fix")

    assert change.base == fork
    assert "left main" in change.notes[0]


def test_a_head_without_a_name_is_the_work_tree(repository: Path) -> None:
    clean = revisions(repository).change("main", None)
    assert clean.head == commit(repository, "fix")

    write(repository, {"a": "3\n"})
    change = revisions(repository).change("main", None)

    assert change.head == ""


def test_files_of_the_result_are_no_change(repository: Path) -> None:
    write(repository, {"out/receipt.json": "{}", "b": "1\n"})
    results = ["out/receipt.json"]

    changed = revisions(repository).change("main", None, results)
    tree = commit_of_work_tree(repository, results)
    (repository / "b").unlink()
    clean = revisions(repository).change("main", None, results)

    assert changed.head == ""
    assert git(repository, "ls-tree", "-r", "--name-only", tree).split() == ["a", "b"]
    assert clean.head == commit(repository, "fix")


def test_a_merge_commit_is_compared_with_the_named_base(repository: Path) -> None:
    git(repository, "switch", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "--no-edit", "fix")

    change = revisions(repository).change("HEAD^", "HEAD")

    assert change.base == commit(repository, "HEAD^1")


def test_equal_revisions_are_an_error(repository: Path) -> None:
    git(repository, "switch", "-q", "main")
    for head in ("main", None):
        with pytest.raises(UsageError, match="no change"):
            revisions(repository).change("main", head)


def test_an_unknown_revision_is_an_error(repository: Path) -> None:
    for name in ("gone", "--all", "main:a"):
        with pytest.raises(UsageError, match="is not a commit"):
            revisions(repository).change(name, "fix")


def test_a_shallow_clone_says_how_to_deepen_it(
    repository: Path, tmp_path: Path
) -> None:
    url = f"file://{repository}"
    git(tmp_path, "clone", "-q", "--depth", "1", "--branch", "fix", url, "shallow")
    missing = commit(repository, "main")

    with pytest.raises(UsageError, match="is not a commit") as error:
        revisions(tmp_path / "shallow").change(missing, "fix")

    assert "--unshallow" in error.value.hint


def test_unrelated_histories_have_no_base(repository: Path) -> None:
    git(repository, "switch", "-q", "--orphan", "other")
    git(repository, "commit", "-q", "--allow-empty", "-m", "root")

    with pytest.raises(UsageError, match="no common commit"):
        revisions(repository).change("main", "other")


def test_a_moved_submodule_is_an_error(repository: Path, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library", {"lib": "1\n"})
    git(repository, "submodule", "--quiet", "add", str(library), "lib")
    git(repository, "commit", "-q", "-m", "submodule")

    with pytest.raises(UsageError, match="submodule lib"):
        revisions(repository).change("main", "fix")


@pytest.fixture
def submodule(repository: Path, tmp_path: Path) -> Path:
    """A submodule that the branch `fix` has, and the branch `next` on top of it."""
    library = make_repository(tmp_path / "library", {"lib": "1\n"})
    git(repository, "submodule", "--quiet", "add", str(library), "lib")
    git(repository, "commit", "-q", "-m", "submodule")
    git(repository, "switch", "-q", "-c", "next")
    write(repository, {"a": "3\n"})
    git(repository, "commit", "-q", "-a", "-m", "three")
    return repository / "lib"


def test_a_submodule_that_is_not_moved_is_no_obstacle(
    repository: Path, submodule: Path
) -> None:
    # A build made this file.
    write(submodule, {"built": "1\n"})

    assert revisions(repository).change("fix", None).base
    assert revisions(repository).change("fix", "next").base


def test_a_submodule_with_other_files_than_those_of_the_head_is_an_error(
    repository: Path, submodule: Path
) -> None:
    write(submodule, {"lib": "2\n"})
    with pytest.raises(UsageError, match="submodule lib of the work tree"):
        revisions(repository).change("fix", "next")

    git(submodule, "commit", "-q", "-a", "-m", "two")
    with pytest.raises(UsageError, match="submodule lib of the work tree"):
        revisions(repository).change("fix", None)


def test_a_folder_outside_of_a_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not in a git repository"):
        revisions(tmp_path)


def test_a_commit_of_the_work_tree_has_new_files_and_leaves_the_index(
    repository: Path,
) -> None:
    write(repository, {"a": "3\n", "new": "1\n", "ignored": "1\n"})
    write(repository, {".gitignore": "ignored\n"})
    before = git(repository, "status", "--porcelain")

    made = commit_of_work_tree(repository)

    assert git(repository, "show", f"{made}:a") == "3\n"
    listed = git(repository, "ls-tree", "-r", "--name-only", made).split()
    assert listed == [".gitignore", "a", "new"]
    assert git(repository, "status", "--porcelain") == before
    assert commit(repository, f"{made}^") == commit(repository, "HEAD")


def test_uncommitted_files_beside_commits_are_named(repository: Path) -> None:
    write(repository, {"a": "3\n", "old receipt.json": "{}"})

    beside_commits = revisions(repository).change("main", None)
    alone = revisions(repository).change("HEAD", None)

    assert "a, old receipt.json" in beside_commits.notes[0]
    assert alone.notes == ()


def test_a_branch_that_a_clone_does_not_have_names_the_command(
    repository: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(
        tmp_path,
        *("clone", "-q", "--depth=1", "--branch=fix", f"file://{repository}"),
        str(clone),
    )

    with pytest.raises(UsageError, match="origin/main is not a commit") as raised:
        revisions(clone).change("origin/main", None)

    hint = str(raised.value.hint)
    assert "git fetch origin main:refs/remotes/origin/main" in hint
    assert "--unshallow" in hint


@pytest.mark.parametrize("trick", ["replace", "graft"])
def test_what_the_repository_puts_in_the_place_of_a_commit_does_not_count(
    trick: str, repository: Path
) -> None:
    main, fix = commit(repository, "main"), commit(repository, "fix")
    tree = commit(repository, "main^{tree}")
    git(repository, "commit", "-q", "--allow-empty", "-m", "three")
    if trick == "replace":
        other = git(repository, "commit-tree", "fix^{tree}", "-m", "other").strip()
        git(repository, "replace", main, other)
    else:
        # The fork would be an earlier commit, or none at all.
        write(repository, {".git/info/grafts": f"{fix}\n"})

    of_repository = revisions(repository)

    assert of_repository.change("main", "HEAD").base == main
    assert of_repository.tree_of(main) == tree
