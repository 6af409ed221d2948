from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.clusters.tasks import TaskList, task_list
from goalrunner.core.errors import UsageError
from tests.support.workspaces import git, make_repository, write

GOAL = 'objective = "Make it."\nvalidator = "true"\nmodel = "openai/gpt-5"\n'
URL = "https://git.example.org/p.git"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {
        "goals/one.toml": GOAL,
        "goals/Two Words.toml": GOAL.replace("it", "that"),
        "sub/one.toml": GOAL,
    }
    return make_repository(tmp_path / "p", files)


def tasks(*paths: Path, name: str | None = None) -> TaskList:
    return task_list(paths, URL, name)


def test_each_goal_file_is_a_task_with_an_id_of_its_own(repository: Path) -> None:
    found = tasks(repository / "goals", repository / "sub" / "one.toml", name="night")
    assert [task.goal_file for task in found.tasks] == [
        "goals/Two Words.toml",
        "goals/one.toml",
        "sub/one.toml",
    ]
    ids = [task.run_id for task in found.tasks]
    assert len(set(ids)) == 3
    assert all(run_id.startswith("night-") for run_id in ids)
    assert ids[0] == "night-two-words"


def test_the_same_commit_has_the_same_ids_and_another_one_has_others(
    repository: Path,
) -> None:
    first, again = tasks(repository / "goals"), tasks(repository / "goals")
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    later = tasks(repository / "goals")
    assert first == again
    assert first.tasks[0].run_id != later.tasks[0].run_id
    assert later.commit == git(repository, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize("count", [3, 120])
def test_long_names_make_ids_that_kubernetes_accepts(
    tmp_path: Path, count: int
) -> None:
    files = {f"goals/{'a' * 60}-{number}.toml": GOAL for number in range(count)}
    repository = make_repository(tmp_path / "p", files)
    ids = [task.run_id for task in tasks(repository / "goals", name="n" * 40).tasks]
    assert len(set(ids)) == count
    assert max(map(len, ids)) <= 63


def test_a_goal_file_that_is_not_committed_as_it_is_is_refused(
    repository: Path,
) -> None:
    changed, new = repository / "goals" / "one.toml", repository / "goals" / "new.toml"
    write(repository, {"goals/one.toml": GOAL + "max_iterations = 2\n"})
    write(repository, {".gitignore": "new.toml\n", "goals/new.toml": GOAL})
    with pytest.raises(UsageError, match="not committed, or changed since") as error:
        tasks(changed, new)
    assert "goals/one.toml" in str(error.value)
    assert "goals/new.toml" in str(error.value)


def test_a_change_of_another_file_is_no_problem(repository: Path) -> None:
    write(repository, {"other.txt": "new\n"})
    assert len(tasks(repository / "goals").tasks) == 2


def test_a_commit_that_no_remote_has_is_noted(repository: Path, tmp_path: Path) -> None:
    (note,) = tasks(repository / "goals").notes
    assert "git push" in note
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(repository, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(repository, "push", "-q", "origin", "main")
    assert tasks(repository / "goals").notes == ()


@pytest.mark.parametrize(
    ("url", "cloned"),
    [
        ("https://git.example.org/p.git", "https://git.example.org/p.git"),
        ("https://me:secret@git.example.org/p.git", "https://git.example.org/p.git"),
        ("https://token@git.example.org/p.git", "https://git.example.org/p.git"),
        ("git@git.example.org:p.git", "git@git.example.org:p.git"),
    ],
)
def test_the_url_of_origin_is_cloned_without_its_password(
    repository: Path, url: str, cloned: str
) -> None:
    git(repository, "remote", "add", "origin", url)
    assert task_list([repository / "goals"], None, None).repository == cloned


def test_goals_with_an_order_are_refused(repository: Path) -> None:
    write(repository, {"goals/one.toml": GOAL + 'after = ["Two Words.toml"]\n'})
    git(repository, "commit", "-q", "-a", "-m", "order")
    with pytest.raises(UsageError, match="begin in any order"):
        tasks(repository / "goals")


def test_a_goal_outside_of_a_repository_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"goal.toml": GOAL})
    with pytest.raises(UsageError, match="is in no git repository"):
        tasks(tmp_path / "goal.toml")


def test_a_repository_without_commits_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {"goal.toml": GOAL})
    with pytest.raises(UsageError, match="has no commit"):
        tasks(tmp_path / "goal.toml")


def test_goals_of_two_repositories_are_refused(
    repository: Path, tmp_path: Path
) -> None:
    other = make_repository(tmp_path / "q", {"goal.toml": GOAL})
    with pytest.raises(UsageError, match="2 repositories"):
        tasks(repository / "goals", other / "goal.toml")


def test_a_workspace_outside_of_the_repository_is_refused(repository: Path) -> None:
    write(repository, {"goals/one.toml": GOAL + '[workspace]\npath = "../.."\n'})
    git(repository, "commit", "-q", "-a", "-m", "elsewhere")
    with pytest.raises(UsageError, match="is not in the repository"):
        tasks(repository / "goals" / "one.toml")


@pytest.mark.parametrize("name", ["Night", "-a", "a-", "a--b", "a_b", "1a", "n" * 41])
def test_a_name_that_kubernetes_refuses_is_refused(repository: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid name for a job"):
        tasks(repository / "goals", name=name)
