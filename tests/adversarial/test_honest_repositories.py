"""Honest runs in every kind of git repository. Each is complete in the expected round."""

from __future__ import annotations

from collections.abc import Mapping

from tests.adversarial.cases import Honest, cases, completes, done_goal, each
from tests.support.arena import Arena
from tests.support.recordings import shell
from tests.support.workspaces import git, write

_EMPTY: Mapping[str, str] = {}


def _repository(arena: Arena) -> None:
    git(arena.workspace, "init", "-q", "-b", "main")
    git(arena.workspace, "add", "-A")
    git(arena.workspace, "commit", "-q", "--allow-empty", "-m", "start")


def _tracked(arena: Arena) -> None:
    _repository(arena)
    git(arena.workspace, "add", "-f", "kept.log")
    git(arena.workspace, "commit", "-q", "-m", "kept")


def _dirty(arena: Arena) -> None:
    _repository(arena)
    write(
        arena.workspace,
        {"a.txt": "changed\n", "new.txt": "untracked\n", "staged.txt": "staged\n"},
    )
    git(arena.workspace, "add", "staged.txt")


def _nested(arena: Arena) -> None:
    inner = arena.workspace / "vendor" / "lib"
    write(inner, {"lib.sh": "echo lib\n"})
    git(inner, "init", "-q", "-b", "main")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "lib")
    _repository(arena)


def _subfolder(arena: Arena) -> None:
    """The workspace is a folder of a repository, with an ignore file above it."""
    write(
        arena.folder,
        {".gitignore": "*.log\nhome/\nuser/\nagent.jsonl\n", "other/b.txt": "b\n"},
    )
    git(arena.folder, "init", "-q", "-b", "main")
    git(arena.folder, "add", "-A")
    git(arena.folder, "commit", "-q", "-m", "start")


def _no_commit(arena: Arena) -> None:
    git(arena.workspace, "init", "-q", "-b", "main")


_DONE = (shell("touch done"),)

RUNS = cases(
    Honest(
        "clean repository",
        "one commit, nothing else",
        (_DONE,),
        {"a.txt": "a\n"},
        done_goal(),
        prepare=_repository,
    ),
    Honest(
        "dirty repository",
        "changed, staged and untracked files at the start",
        (_DONE,),
        {"a.txt": "a\n"},
        done_goal(),
        prepare=_dirty,
    ),
    Honest(
        "repository without a commit",
        "git init and nothing else",
        (_DONE,),
        _EMPTY,
        done_goal(),
        prepare=_no_commit,
    ),
    Honest(
        "nested repository",
        "another repository in vendor/",
        (_DONE,),
        {"a.txt": "a\n"},
        done_goal("test -e done && sh vendor/lib/lib.sh"),
        prepare=_nested,
    ),
    Honest(
        "work in a nested repository",
        "the agent commits in vendor/lib",
        ((shell("cd vendor/lib && touch x && git add x && git commit -qm x"), *_DONE),),
        {"a.txt": "a\n"},
        done_goal("test -e done && test -e vendor/lib/x"),
        prepare=_nested,
    ),
    Honest(
        "folder of a repository",
        "the workspace lies within a repository",
        (_DONE,),
        {"a.txt": "a\n", "x.log": "ignored\n"},
        done_goal(),
        prepare=_subfolder,
    ),
    Honest(
        "commit before the check",
        "the agent commits its work",
        ((*_DONE, shell("git add -A && git commit -qm work")),),
        {"a.txt": "a\n"},
        done_goal(),
        prepare=_repository,
    ),
    Honest(
        "branch and tag",
        "the agent works on a branch of its own",
        (
            (
                shell(
                    "git checkout -qb work && touch done && git add done && git commit -qm w && git tag t"
                ),
            ),
        ),
        {"a.txt": "a\n"},
        done_goal(),
        prepare=_repository,
    ),
    Honest(
        "git asked by the check",
        "the check calls git ls-files and git status",
        (_DONE,),
        {"a.txt": "a\n"},
        done_goal(
            "test -e done && git ls-files | grep -q a.txt && git status --short >/dev/null"
        ),
        prepare=_repository,
    ),
    Honest(
        "generated ignored files",
        "a build folder that .gitignore names",
        ((shell("mkdir build && echo o > build/a.o && touch done"),),),
        {".gitignore": "build/\n"},
        done_goal(),
        prepare=_repository,
    ),
    Honest(
        "build in the check",
        "the check itself builds into an ignored folder",
        (_DONE,),
        {".gitignore": "build/\n"},
        done_goal("mkdir -p build && date +%N > build/stamp && test -e done"),
        prepare=_repository,
    ),
    Honest(
        "tracked though ignored",
        "a tracked file that .gitignore names",
        ((shell("echo new > kept.log; touch done"),),),
        {".gitignore": "*.log\n", "kept.log": "old\n"},
        done_goal("test -e done && grep -q new kept.log"),
        prepare=_tracked,
    ),
    Honest(
        "line ends of Windows",
        "CRLF files, with text=auto in .gitattributes",
        ((shell("printf 'a\\r\\nb\\r\\n' > a.txt; touch done"),),),
        {"a.txt": b"a\r\n", ".gitattributes": "* text=auto\n"},
        done_goal("test -e done && grep -q \"$(printf 'b\\r')\" a.txt"),
        prepare=_repository,
        labels=("rests on changed files: a.txt",),
    ),
    Honest(
        "submodule",
        "a real submodule, checked out",
        (_DONE,),
        {"a.txt": "a\n"},
        done_goal("test -e done && test -e sub/lib.txt"),
        prepare=lambda arena: _submodule(arena),
    ),
)


def _submodule(arena: Arena) -> None:
    lib = arena.folder / "lib"
    write(lib, {"lib.txt": "lib\n"})
    git(lib, "init", "-q", "-b", "main")
    git(lib, "add", "-A")
    git(lib, "commit", "-q", "-m", "lib")
    _repository(arena)
    git(arena.workspace, "submodule", "--quiet", "add", str(lib), "sub")
    git(arena.workspace, "commit", "-q", "-m", "sub")


test_an_honest_run_completes = each(completes, RUNS)
