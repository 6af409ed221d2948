"""Git's configuration and hooks in the check environment are those of the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.checking.environment import Layer
from goalrunner.checking.git_files import GitSettings
from goalrunner.core.errors import WorkspaceError
from tests.support.workspaces import git, make_repository

HOOK = "#!/bin/sh\nexit 1\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "ws", {"a.txt": "a\n"})


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "start" / "git.json"


def remembered(workspace: Path, record: Path) -> GitSettings:
    settings = GitSettings(workspace, record)
    settings.remember()
    return settings


def hook(folder: Path, name: str, text: str = HOOK) -> Path:
    path = folder / "hooks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_what_did_not_change_needs_no_layer(workspace: Path, record: Path) -> None:
    settings = remembered(workspace, record)
    assert settings.layers(Layer(workspace)) == (Layer(workspace),)
    assert settings.roots() == ()


def test_a_changed_configuration_is_put_back(workspace: Path, record: Path) -> None:
    before = (workspace / ".git" / "config").read_bytes()
    settings = remembered(workspace, record)
    git(workspace, "config", "core.fsmonitor", "./evil")
    (layer,) = settings.layers(Layer(workspace))
    assert {path: item.data for path, item in layer.put.items()} == {
        ".git/config": before
    }
    assert layer.hide == frozenset()


def test_planted_settings_and_hooks_do_not_exist(workspace: Path, record: Path) -> None:
    settings = remembered(workspace, record)
    hook(workspace / ".git", "post-checkout")
    hook(workspace / ".git", "pre-commit.sample")  # git runs none of these
    (workspace / ".git" / "info").mkdir(exist_ok=True)
    (workspace / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    (workspace / ".git" / "config.worktree").symlink_to("/etc/passwd")
    (layer,) = settings.layers(Layer(workspace))
    assert layer.hide == {
        ".git/hooks/post-checkout",
        ".git/info/attributes",
        ".git/config.worktree",
    }
    assert layer.put == {}


def test_changed_and_deleted_hooks_are_put_back_with_their_mode(
    workspace: Path, record: Path
) -> None:
    changed, deleted = (
        hook(workspace / ".git", "pre-commit"),
        hook(workspace / ".git", "pre-push"),
    )
    settings = remembered(workspace, record)
    changed.chmod(0o644)
    deleted.unlink()
    (layer,) = settings.layers(Layer(workspace))
    assert {
        path: (item.data.decode(), item.mode & 0o777)
        for path, item in layer.put.items()
    } == {
        ".git/hooks/pre-commit": (HOOK, 0o755),
        ".git/hooks/pre-push": (HOOK, 0o755),
    }


def test_a_hook_that_is_a_link_is_put_back_as_a_link(
    workspace: Path, record: Path
) -> None:
    path = workspace / ".git" / "hooks" / "pre-push"
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("../../a.txt")
    settings = remembered(workspace, record)
    path.unlink()
    path.symlink_to("../../b.txt")
    (layer,) = settings.layers(Layer(workspace))
    item = layer.put[".git/hooks/pre-push"]
    assert (item.is_link, item.data) == (True, b"../../a.txt")


def test_the_layer_of_the_workspace_keeps_what_it_has(
    workspace: Path, record: Path
) -> None:
    settings = remembered(workspace, record)
    hook(workspace / ".git", "post-checkout")
    (layer,) = settings.layers(Layer(workspace, {}, frozenset({"planted.py"})))
    assert layer.hide == {"planted.py", ".git/hooks/post-checkout"}


def test_another_process_compares_with_the_start_of_the_run(
    workspace: Path, record: Path
) -> None:
    hook(workspace / ".git", "pre-push")
    remembered(workspace, record)
    hook(workspace / ".git", "pre-push", "exit 0\n")
    hook(workspace / ".git", "post-checkout")
    (layer,) = remembered(workspace, record).layers(Layer(workspace))
    assert {path: item.data.decode() for path, item in layer.put.items()} == {
        ".git/hooks/pre-push": HOOK
    }
    assert layer.hide == {".git/hooks/post-checkout"}


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[1]",
        '{"/x": 1}',
        '{"/x": {"config": [1]}}',
        '{"/x": {"config": [1, 2]}}',
    ],
)
def test_a_record_that_cannot_be_read_is_an_error(
    workspace: Path, record: Path, damage: str
) -> None:
    record.parent.mkdir()
    record.write_text(damage)
    with pytest.raises(WorkspaceError, match="is damaged"):
        remembered(workspace, record)


def test_without_a_repository_there_is_nothing_to_put_back(
    tmp_path: Path, record: Path
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    settings = remembered(folder, record)
    assert settings.layers(Layer(folder)) == (Layer(folder),)


def test_a_repository_that_the_agent_makes_has_no_settings_of_its_own(
    tmp_path: Path, record: Path
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    settings = remembered(folder, record)
    make_repository(folder, {"a": "a"})
    hook(folder / ".git", "post-checkout")
    (layer,) = settings.layers(Layer(folder))
    assert {".git/config", ".git/hooks/post-checkout"} <= layer.hide


def test_the_git_folder_of_a_worktree_is_a_layer_of_its_own(
    tmp_path: Path, workspace: Path, record: Path
) -> None:
    tree = tmp_path / "tree"
    git(workspace, "worktree", "add", "-q", str(tree))
    settings = remembered(tree, record)
    assert settings.roots() == (workspace / ".git",)
    hook(workspace / ".git", "post-checkout")
    own = workspace / ".git" / "worktrees" / "tree" / "config.worktree"
    own.write_text("[core]\n")
    first, second = settings.layers(Layer(tree))
    assert first == Layer(tree)
    assert (second.root, second.hide) == (
        workspace / ".git",
        frozenset({"hooks/post-checkout", "worktrees/tree/config.worktree"}),
    )


def test_submodules_have_settings_as_well(
    tmp_path: Path, workspace: Path, record: Path
) -> None:
    inner = make_repository(tmp_path / "inner", {"b.txt": "b\n"})
    git(workspace, "submodule", "add", "-q", str(inner), "inner")
    settings = remembered(workspace, record)
    module = workspace / ".git" / "modules" / "inner"
    before = (module / "config").read_bytes()
    (module / "config").write_bytes(before + b"[core]\n\tfsmonitor = ./evil\n")
    hook(module, "post-checkout")
    (layer,) = settings.layers(Layer(workspace))
    assert {path: item.data for path, item in layer.put.items()} == {
        ".git/modules/inner/config": before
    }
    assert layer.hide == {".git/modules/inner/hooks/post-checkout"}


def test_a_workspace_inside_of_a_repository_has_its_settings(
    tmp_path: Path, record: Path
) -> None:
    root = make_repository(tmp_path / "mono", {"app/a.txt": "a\n"})
    settings = remembered(root / "app", record)
    hook(root / ".git", "post-checkout")
    first, second = settings.layers(Layer(root / "app"))
    assert (first, second.root, second.hide) == (
        Layer(root / "app"),
        root / ".git",
        frozenset({"hooks/post-checkout"}),
    )


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (("config", "user.name", "x"), []),
        (("config", "core.hooksPath", ".husky"), []),
        (("config", "branch.work.remote", "origin"), []),
        (("config", "filter.fix.smudge", "sed"), [".git/config (filter.fix.smudge)"]),
        (("config", "core.worktree", "/x"), [".git/config (core.worktree)"]),
        (("config", "alias.st", "status"), [".git/config (alias.st)"]),
        (("config", "diff.external", "x"), [".git/config (diff.external)"]),
    ],
)
def test_settings_that_steer_git_are_named(
    workspace: Path, record: Path, script: tuple[str, ...], found: list[str]
) -> None:
    settings = remembered(workspace, record)
    git(workspace, *script)
    assert settings.steering() == found


def test_attributes_steer_git_and_hooks_and_excluded_paths_do_not(
    workspace: Path, record: Path
) -> None:
    settings = remembered(workspace, record)
    hook(workspace / ".git", "pre-commit")
    (workspace / ".git" / "info").mkdir(exist_ok=True)
    (workspace / ".git" / "info" / "exclude").write_text("*.tmp\n")
    assert settings.steering() == []
    (workspace / ".git" / "info" / "attributes").write_text("* filter=x\n")
    assert settings.steering() == [".git/info/attributes"]


def test_checks_outside_of_the_workspace_are_put_back(
    tmp_path: Path, record: Path
) -> None:
    files = {
        "part/a.txt": "a\n",
        "tests/test_a.py": "1\n",
        "tests/data/x": "1\n",
        "ci/check.sh": "1\n",
        "free/b": "1\n",
    }
    root = make_repository(tmp_path / "ws", files)
    settings = GitSettings(
        root / "part",
        record,
        ["../tests", "../ci/check.sh", "../part", "..", "../../outside"],
    )
    settings.remember()
    for path in ("tests/test_a.py", "tests/data/x", "ci/check.sh", "free/b"):
        (root / path).write_text("2\n")
    (root / "tests/conftest.py").touch()
    layers = settings.layers(Layer(root / "part"))
    put = {
        f"{layer.root.name}/{path}": item.data
        for layer in layers
        for path, item in layer.put.items()
    }
    assert put == {
        "tests/test_a.py": b"1\n",
        "tests/data/x": b"1\n",
        "ci/check.sh": b"1\n",
    }
    assert [path for layer in layers for path in layer.hide] == ["conftest.py"]
    assert [path.relative_to(root).as_posix() for path in settings.above()] == [
        "ci/check.sh",
        "tests/conftest.py",
        "tests/data/x",
        "tests/test_a.py",
    ]
