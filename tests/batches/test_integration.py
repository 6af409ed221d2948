"""Bringing the verified changes of a batch onto one branch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import EntryIntegrated
from goalrunner.batches.integration import Integration
from goalrunner.batches.repository_integration import IntegrationSettings
from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.outcome import StopReason
from tests.support.ended_batch import PlainCheck, Work, ended_batch
from tests.support.workspaces import git, listing, make_repository, write

_FILES = {
    "a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
    "b.txt": "b\n",
    "link": "target\n",
    "run.sh": "echo\n",
}


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME", raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return _repository(tmp_path / "ws")


@pytest.fixture
def check(tmp_path: Path) -> PlainCheck:
    return PlainCheck(tmp_path / "checks")


def _repository(folder: Path) -> Path:
    root = make_repository(folder, _FILES)
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    return root


def _integrate(
    batch: BatchFolder, home: Path, check: PlainCheck, branch: str = ""
) -> dict[str, EntryIntegrated]:
    """Integrate, and return the new decisions by the name of their entry."""
    settings = IntegrationSettings(home, os.environ, check)
    with batch.writing() as log:
        names = {key: one.entry.name for key, one in log.state.entries.items()}
        events = Integration(batch, log, settings, branch).perform()
        return {names[event.key]: event for event in events}


def _state(root: Path) -> tuple[object, ...]:
    """What a person sees of the work tree."""
    return (
        listing(root),
        git(root, "status", "--porcelain=v2", "--branch"),
        git(root, "branch", "--show-current"),
    )


def _subjects(root: Path, branch: str = "goal/night") -> list[str]:
    return git(root, "log", "--format=%s", f"main..{branch}").splitlines()[::-1]


def _files(root: Path, branch: str = "goal/night") -> list[str]:
    return git(root, "ls-tree", "-r", "--name-only", branch).splitlines()


def test_conflicts_and_red_trees_are_left_out_and_the_next_ones_go_on(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    works = [
        Work("top", "sed -i 's/^1$/one/' a.txt", "grep -q one a.txt"),
        Work("clash", "sed -i 's/^1$/uno/' a.txt", "grep -q uno a.txt"),
        Work("end", "sed -i 's/^9$/nine/' a.txt", "test ! -e forbidden"),
        Work("red", "echo > forbidden", "test -e forbidden"),
        Work("gone", "rm b.txt", "test ! -e b.txt"),
        Work("edit", "echo more >> b.txt", "test -s b.txt"),
    ]
    batch = ended_batch(home, workspace, works)
    before = _state(workspace)
    decisions = _integrate(batch, home, check)
    assert _state(workspace) == before
    reasons = {name: one.reason for name, one in decisions.items()}
    assert [name for name, reason in reasons.items() if not reason] == [
        "top",
        "end",
        "gone",
    ]
    assert "a.txt: " in reasons["clash"]
    assert reasons["red"] == "the merged tree is red: check-end fails"
    assert "b.txt: " in reasons["edit"]
    assert _subjects(workspace) == [
        "Objective of top",
        "Objective of end",
        "Objective of gone",
    ]
    assert (
        git(workspace, "show", "goal/night:a.txt") == "one\n2\n3\n4\n5\n6\n7\n8\nnine\n"
    )
    message = git(workspace, "log", "-1", "--format=%B", "goal/night")
    assert "Goal-Run: run5-gone\nGoal-Status: complete\nGoal-Batch: night\n" in message
    assert decisions["gone"].commit == git(workspace, "rev-parse", "goal/night").strip()
    assert check.runs[-1] == ("check-end", "check-gone", "check-top")
    assert _integrate(batch, home, check) == {}


def test_what_was_not_committed_is_the_first_commit(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    (workspace / "b.txt").unlink()
    write(workspace, {"a.txt": "mine\n", "new.txt": "mine\n", "top.toml": "x\n"})
    batch = ended_batch(
        home, workspace, [Work("top", "echo 1 >> a.txt", "test -e new.txt")]
    )
    before = _state(workspace)
    assert _integrate(batch, home, check)["top"].reason == ""
    assert _state(workspace) == before
    assert _subjects(workspace) == [
        "Uncommitted changes when batch night began",
        "Objective of top",
    ]
    assert _files(workspace) == ["a.txt", "link", "new.txt", "run.sh"]
    assert git(workspace, "show", "goal/night:a.txt") == "mine\n1\n"


@pytest.mark.parametrize("logged", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_killed_integration_goes_on_where_it_was(
    workspace: Path, home: Path, check: PlainCheck, *, logged: bool
) -> None:
    works = [
        Work("first", "echo 1 > first", "test -e first"),
        Work("second", "echo 2 > second", "test -e first"),
        Work("third", "echo 3 > third", "test -e third"),
    ]
    batch = ended_batch(home, workspace, works)
    settings = IntegrationSettings(home, os.environ, check)
    with batch.writing() as log:
        size = batch.log.stat().st_size
        first = next(Integration(batch, log, settings).perform())
        if logged:
            size = batch.log.stat().st_size
    os.truncate(batch.log, size)
    decisions = _integrate(batch, home, check)
    assert decisions.keys() == {"second", "third"} | (set() if logged else {"first"})
    assert [one.reason for one in decisions.values()] == [""] * len(decisions)
    if not logged:
        assert decisions["first"].commit == first.commit
    assert _subjects(workspace) == [
        "Objective of first",
        "Objective of second",
        "Objective of third",
    ]
    assert check.runs == [
        ("check-first",),
        ("check-first", "check-second"),
        ("check-first", "check-second", "check-third"),
    ]


@pytest.mark.slow
def test_every_repository_has_a_branch_of_its_own(
    workspace: Path, home: Path, check: PlainCheck, tmp_path: Path
) -> None:
    other = _repository(tmp_path / "other")
    plain = tmp_path / "plain"
    write(plain, {"a.txt": "1\n"})
    inner = workspace / "packages" / "x"
    write(inner, {"x.txt": "x\n"})
    git(workspace, "add", "packages")
    git(workspace, "commit", "-qm", "packages")
    works = [
        Work("here", "echo 1 > new"),
        Work("there", "echo 2 > new", workspace=other),
        Work("inner", "echo 3 > new", "test -e ../../new", workspace=inner),
        Work("no-git", "echo 4 > new", workspace=plain),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert [name for name, one in decisions.items() if one.commit] == [
        "here",
        "there",
        "inner",
    ]
    assert "is in no git repository" in decisions["no-git"].reason
    assert "goal apply run4-no-git" in decisions["no-git"].reason
    assert _integrate(batch, home, check) == {}
    assert "packages/x/new" in _files(workspace)
    assert "new" in _files(other)


def test_deletions_modes_links_and_binary_files_are_on_the_branch(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    works = [
        Work("mode", "chmod +x run.sh; printf 'a\\0b' > binary; mv b.txt moved.txt"),
        Work("link", "rm link; ln -s a.txt link; mkdir d; echo 1 > d/x"),
        Work("folder", "rm run.sh; mkdir run.sh; echo 1 > run.sh/inner"),
        Work("same", "printf 'a\\0b' > binary"),
        Work("other", "printf 'c\\0d' > binary"),
        Work("nothing", "true"),
    ]
    batch = ended_batch(home, workspace, works)
    reasons = {n: one.reason for n, one in _integrate(batch, home, check).items()}
    assert [reasons[name] for name in ("mode", "link", "same")] == ["", "", ""]
    assert "run.sh: " in reasons["folder"]
    assert "binary: " in reasons["other"]
    assert reasons["nothing"] == "it changed no files"
    rows = git(workspace, "ls-tree", "-r", "goal/night").splitlines()
    modes = {row.split("\t")[1]: row.split()[0] for row in rows}
    assert modes["run.sh"] == "100755"
    assert modes["link"] == "120000"
    assert sorted(modes) == ["a.txt", "binary", "d/x", "link", "moved.txt", "run.sh"]
    assert _subjects(workspace) == ["Objective of mode", "Objective of link"]


@pytest.mark.slow
def test_what_git_converts_is_on_the_branch_as_git_add_would_write_it(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    git(workspace, "config", "filter.upper.clean", "tr a-z A-Z")
    git(workspace, "config", "filter.upper.smudge", "tr A-Z a-z")
    attributes = "*.bat text eol=crlf\n*.up filter=upper\n"
    write(workspace, {".gitattributes": attributes, "old.up": "old\n"})
    (workspace / "run.bat").write_bytes(b"1\r\n2\r\n3\r\n4\r\n")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "converted")
    works = [
        Work("first", "sed -i 's/1/one/' run.bat; echo new > new.up"),
        Work("second", "sed -i 's/4/four/' run.bat; echo more >> old.up"),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert [one.reason for one in decisions.values()] == ["", ""]
    assert _subjects(workspace) == ["Objective of first", "Objective of second"]
    contents = [
        git(workspace, "show", f"goal/night:{name}")
        for name in ("run.bat", "new.up", "old.up")
    ]
    assert contents == ["one\n2\n3\nfour\n", "NEW\n", "OLD\nMORE\n"]


@pytest.mark.slow
def test_the_files_of_a_submodule_are_left_out(
    workspace: Path, home: Path, check: PlainCheck, tmp_path: Path
) -> None:
    library = _repository(tmp_path / "library")
    git(workspace, "submodule", "add", "-q", str(library), "sub")
    git(workspace, "commit", "-qm", "sub")
    works = [
        Work("outer", "echo 1 > new"),
        Work("inner", "echo 1 >> sub/a.txt"),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert decisions["outer"].commit
    assert "sub/a.txt is in a submodule" in decisions["inner"].reason
    assert _subjects(workspace) == ["Objective of outer"]


@pytest.mark.slow
def test_a_judge_alone_verifies_only_the_tree_that_it_has_seen(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    write(workspace, {"goal.toml": "not in git\n"})
    works = [
        Work("first", "echo 1 > first", validator=""),
        Work("second", "echo 2 > second", validator=""),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert decisions["first"].commit
    assert "no validator runs on the merged tree" in decisions["second"].reason


@pytest.mark.slow
def test_goals_that_are_not_complete_wait_and_what_follows_one_is_left_out_with_it(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    works = [
        Work("late", "echo 1 > late", after=("clash",)),
        Work("first", "echo 1 > new"),
        Work("clash", "echo 2 > new"),
        Work("capped", "echo 3 > capped", stop=StopReason.MAX_ITERATIONS),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert list(decisions) == ["clash", "late", "first"]
    assert decisions["late"].commit


def test_a_branch_of_another_origin_and_a_checked_out_one_are_refused(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    batch = ended_batch(home, workspace, [Work("first", "echo 1 > new")])
    git(workspace, "branch", "goal/night")
    with pytest.raises(UsageError, match="does not end with a commit of batch night"):
        _integrate(batch, home, check)
    git(workspace, "branch", "-D", "goal/night")
    for name in ("a..b", "@", "refs/heads/other", "-x"):
        with pytest.raises(UsageError, match="not a valid name"):
            _integrate(batch, home, check, name)
    assert _integrate(batch, home, check)["first"].commit
    # A person who removed it wants it again.
    git(workspace, "branch", "-D", "goal/night")
    assert _integrate(batch, home, check)["first"].commit
    assert _integrate(batch, home, check, "other")["first"].commit
    assert _subjects(workspace, "other") == ["Objective of first"]


@pytest.mark.slow
def test_a_change_that_the_base_has_makes_no_branch(
    workspace: Path, home: Path, check: PlainCheck, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    git(workspace, "worktree", "add", "-q", "-b", "feature", str(tree))
    write(workspace, {"new": "1\n"})
    git(workspace, "add", "new")
    git(workspace, "commit", "-qm", "new")
    works = [
        Work("capped", "echo 1 > capped", stop=StopReason.MAX_ITERATIONS),
        Work("there", "echo 1 > new", workspace=tree),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert decisions["there"].reason == "the branch begins with its change"
    assert git(workspace, "branch", "--list", "goal/*") == ""
    assert _integrate(batch, home, check) == {}


@pytest.mark.slow
def test_a_commit_that_a_person_took_back_is_made_again(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    works = [Work("first", "echo 1 > first"), Work("second", "echo 2 > second")]
    batch = ended_batch(home, workspace, works)
    assert _integrate(batch, home, check).keys() == {"first", "second"}
    git(workspace, "branch", "-f", "goal/night", "goal/night~1")
    assert _integrate(batch, home, check).keys() == {"second"}


def test_a_batch_outside_of_git_names_the_command_for_one_run(
    home: Path, check: PlainCheck, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    write(plain, {"a.txt": "1\n"})
    batch = ended_batch(home, plain, [Work("first", "echo 1 > new")])
    with pytest.raises(UsageError, match="is in no git repository") as refused:
        _integrate(batch, home, check)
    assert "goal apply run1-first" in refused.value.hint


@pytest.mark.slow
def test_work_trees_of_one_repository_share_a_branch(
    workspace: Path, home: Path, check: PlainCheck, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    git(workspace, "worktree", "add", "-q", "-b", "feature", str(tree))
    write(workspace, {"mine.txt": "1\n"})
    write(tree, {"b.txt": "there\n"})
    works = [
        Work("here", "echo 1 > new", "test -e mine.txt"),
        Work("there", "echo 2 > other", "test -e new", workspace=tree),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert [one.reason for one in decisions.values()] == ["", ""]
    assert _subjects(workspace) == [
        "Uncommitted changes when batch night began",
        "Uncommitted changes when batch night began",
        "Objective of here",
        "Objective of there",
    ]
    assert git(workspace, "show", "goal/night:b.txt") == "there\n"


@pytest.mark.slow
def test_a_folder_that_a_repository_ignores_is_not_in_it(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    write(workspace, {".gitignore": "scratch/\n", "scratch/a.txt": "1\n"})
    works = [Work("first", "echo 1 > new", workspace=workspace / "scratch")]
    batch = ended_batch(home, workspace, works)
    with pytest.raises(UsageError, match="is in no git repository"):
        _integrate(batch, home, check)


@pytest.mark.slow
def test_what_the_person_does_between_two_runs_is_not_on_the_branch(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    works = [
        Work("first", "echo 1 > first"),
        Work(
            "second",
            "sed -i 's/^9$/nine/' a.txt",
            between="sed -i 's/^1$/mine/' a.txt; git commit -qam mine; echo > mine.txt",
        ),
    ]
    batch = ended_batch(home, workspace, works)
    decisions = _integrate(batch, home, check)
    assert [one.reason for one in decisions.values()] == ["", ""]
    assert git(workspace, "log", "--format=%s", "goal/night").splitlines() == [
        "Objective of second",
        "Objective of first",
        "one",
    ]
    assert (
        git(workspace, "show", "goal/night:a.txt") == "1\n2\n3\n4\n5\n6\n7\n8\nnine\n"
    )
    assert "mine.txt" not in _files(workspace)


@pytest.mark.slow
def test_a_branch_name_that_git_cannot_make_is_an_error_that_repeats_nothing(
    workspace: Path, home: Path, check: PlainCheck
) -> None:
    git(workspace, "branch", "goal")
    batch = ended_batch(home, workspace, [Work("first", "echo 1 > new")])
    with pytest.raises(WorkspaceError, match="cannot move the branch") as refused:
        _integrate(batch, home, check)
    assert "--branch NAME" in refused.value.hint
    assert _integrate(batch, home, check, "ours")["first"].commit


@pytest.mark.parametrize(
    ("options", "commits", "reason"),
    [
        ((), False, "had no commit when the batch began"),
        (("--object-format=sha256",), True, "has SHA-256 objects"),
    ],
)
def test_a_repository_on_which_no_commit_can_be_based_gets_no_branch(
    home: Path,
    check: PlainCheck,
    tmp_path: Path,
    options: tuple[str, ...],
    *,
    commits: bool,
    reason: str,
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q", *options)
    if commits:
        git(root, "commit", "-qm", "one", "--allow-empty")
    batch = ended_batch(home, root, [Work("first", "echo 1 > new")])
    assert reason in _integrate(batch, home, check)["first"].reason


@pytest.mark.slow
def test_what_a_sparse_checkout_leaves_out_is_not_deleted(
    home: Path, check: PlainCheck, tmp_path: Path
) -> None:
    root = _repository(tmp_path / "sparse")
    write(root, {"one/x": "1\n", "two/x": "2\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "folders")
    git(root, "sparse-checkout", "set", "one")
    batch = ended_batch(home, root, [Work("first", "echo 1 > one/new")])
    assert _integrate(batch, home, check)["first"].commit
    assert _subjects(root) == ["Objective of first"]
    assert "two/x" in _files(root)


@pytest.mark.slow
def test_a_goal_whose_run_or_workspace_is_gone_is_left_out(
    workspace: Path, home: Path, check: PlainCheck, tmp_path: Path
) -> None:
    other = _repository(tmp_path / "other")
    works = [
        Work("first", "echo 1 > first"),
        Work("pruned", "echo 2 > second"),
        Work("moved", "echo 3 > third", workspace=other),
    ]
    batch = ended_batch(home, workspace, works)
    shutil.rmtree(home / "runs" / "run2-pruned")
    shutil.rmtree(other)
    decisions = _integrate(batch, home, check)
    assert decisions["first"].commit
    assert "its run cannot be read" in decisions["pruned"].reason
    assert decisions["moved"].reason == f"{other} is gone"
