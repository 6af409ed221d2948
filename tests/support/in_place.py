"""A workspace for in-place checks, everything that can be seen of it, and a runner program to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from pathlib import Path

from goalrunner.checking.environment import File, Layer
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.journal import NAME, checks_folder, lock, read
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher
from tests.support.workspaces import git, make_repository, write

VALIDATOR = r"""
echo overwritten >> tests/test_a.py; echo changed > src/a.py; rm -rf src/deep; mkdir -p empty/made; echo n > empty/made/new.py
rm -rf link; ln -s /etc link; chmod 755 plain.txt; mkdir build; echo b > build/other; rm -rf planted; echo x > planted
rmdir hollow; chmod 700 src; chmod 600 src/staged.py; chmod 666 .gitignore; rm tests/nested/n.py
git init -q made-repo
(setsid sh -c 'while true; do echo late >> src/a.py; echo late > late.py; sleep 0.005; done' >/dev/null 2>&1 &)
sleep 0.05
"""
"""What it does to the workspace that `make_workspace` makes; a process of it goes on after its end."""

MADE = ("late.py", "empty", "made-repo", "new")
"""New files of validators, which stay."""


def make_workspace(folder: Path) -> Path:
    """A repository with edits, staged and not, and with hidden, ignored, empty and linked things."""
    files = {
        "tests/test_a.py": "original\n",
        "src/a.py": "a\n",
        "src/deep/b.py": "b\n",
        "plain.txt": "p\n",
    }
    make_repository(
        folder, {**files, ".gitignore": "*.log\nbuild/\n", "gone.py": "g\n"}
    )
    git(folder, "tag", "first")
    git(folder, "pack-refs", "--all")
    git(folder, "branch", "side")
    write(
        folder,
        {
            "tests/test_a.py": "weakened\n",
            "src/staged.py": "s\n",
            "planted/conftest.py": "planted\n",
        },
    )
    write(folder, {"build/out.bin": "built\n", "cache.log": "log\n", "secret": "s\n"})
    git(folder, "add", "src/staged.py")
    make_repository(folder / "store", {"n.py": "n\n"})
    (folder / "tests/nested").mkdir()
    (folder / "store/.git").rename(folder / ".git/nested.git")
    (folder / "store/n.py").rename(folder / "tests/nested/n.py")
    (folder / "store").rmdir()
    (folder / "tests/nested/.git").write_text("gitdir: ../../.git/nested.git\n")
    os.mkfifo(folder / "queue", 0o640)
    (folder / "gone.py").unlink()
    (folder / "link").symlink_to("src/a.py")
    (folder / "secret").chmod(0o600)
    (folder / "tests/test_a.py").chmod(0o755)
    (folder / "hollow").mkdir(mode=0o750)
    for number, name in enumerate(
        ("tests/test_a.py", "planted/conftest.py", "build/out.bin", "src/staged.py")
    ):
        os.utime(folder / name, (1_000_000_000 + number, 1_000_000_000 + number))
    return folder


def layers(workspace: Path) -> list[Layer]:
    """Original tests, one in a new folder and one in place of a link; planted and built folders are hidden."""
    put = {
        "tests/test_a.py": File(stat.S_IFREG | 0o644, b"original\n"),
        "gone.py": File(stat.S_IFREG | 0o755, b"g\n"),
        "link/inside.py": File(stat.S_IFREG | 0o644, b"i\n"),
        "fresh/deep/link": File(stat.S_IFLNK | 0o777, b"../../src/a.py"),
        "planted/original": File(stat.S_IFREG | 0o644, b"o\n"),
    }
    return [
        Layer(workspace, put, frozenset({"planted", "build", "missing", "link/never"}))
    ]


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """Kind, mode and content of everything but git objects and new files of validators."""
    found: dict[str, tuple[object, ...]] = {}
    for way, inner, files in os.walk(folder):
        if ".git" in Path(way).relative_to(folder).parts and "objects" in inner:
            inner.remove("objects")
        if Path(way) == folder:
            inner[:] = [name for name in inner if name not in MADE]
        for name in (*inner, *(name for name in files if name not in MADE)):
            path = Path(way, name)
            info = path.lstat()
            what = (
                path.readlink()
                if path.is_symlink()
                else path.read_bytes()
                if stat.S_ISREG(info.st_mode)
                else "folder"
            )
            found[str(path.relative_to(folder))] = (stat.filemode(info.st_mode), what)
    return found


def times(folder: Path) -> dict[str, int]:
    """The modification times of the files that `make_workspace` has dated: the check renames or ignores them."""
    return {
        str(path.relative_to(folder)): path.lstat().st_mtime_ns
        for path in folder.rglob("*")
        if dated(path)
    }


def dated(path: Path) -> bool:
    """Whether it is a file of the past, outside of git folders."""
    return (
        path.is_file()
        and not path.is_symlink()
        and path.stat().st_mtime < 1_000_000_010
    )


def status(folder: Path) -> str:
    """What git says of a workspace without new files of validators, and without writing to its index."""
    refs = git(folder, "for-each-ref", "--format=%(refname) %(objectname)")
    lines = git(
        folder, "--no-optional-locks", "status", "--porcelain=v2", "--branch"
    ).splitlines()
    return (
        "\n".join(
            line
            for line in lines
            if not line.startswith(tuple(f"? {name}" for name in MADE))
        )
        + refs
    )


def pending(home: Path) -> tuple[Path, ...]:
    """The workspaces with a check that was interrupted and is not undone yet."""
    result: dict[Path, None] = {}
    for path in checks_folder(home.resolve()).glob(f"*/{NAME}"):
        with contextlib.suppress(OSError):
            workspace, handle = Path(read(path.parent).workspace), lock(path.parent)
            if handle is not None:
                os.close(handle)
                result[workspace] = None
    return tuple(result)


async def check(workspace: Path, home: Path, script: str, output: Path) -> int | None:
    """Run a script in an in-place check environment; return its exit code."""
    store = SnapshotStore(workspace, home, start=home / "start")
    launcher = ProcessLauncher()
    try:
        environment = InPlace(store, home, start=home / "start")
        async with environment.open(layers(workspace)) as opened:
            argv = ["/bin/sh", "-c", script]
            started = opened.launcher(launcher)
            done = await started.launch(
                argv, cwd=workspace, env=opened.environ(os.environ), output=output
            )
        return done.exit_code
    finally:
        launcher.close()
        store.close()


def main() -> None:
    """Say that everything is imported, wait for a line, then run the check."""
    workspace, home = map(Path, sys.argv[1:3])
    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(check(workspace, home, VALIDATOR, home / "output"))
    print("done", flush=True)


if __name__ == "__main__":
    main()
