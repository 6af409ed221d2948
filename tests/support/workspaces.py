"""Workspaces to take snapshots of: plain folders and repositories made by real git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.store import SnapshotStore


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user would, without that user's own configuration; gives the output."""
    identity = [
        "-c",
        "user.name=n",
        "-c",
        "user.email=e@x",
        "-c",
        "protocol.file.allow=always",
    ]
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        env=environ,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files; folders are made as needed."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make_repository(folder: Path, files: Mapping[str, str]) -> Path:
    """A repository with one commit of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    write(folder, files)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


def listing(folder: Path) -> dict[str, bytes | str]:
    """Every file and link of a folder but what is called .git: content, `x` for an executable one, `->` for a link."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if ".git" in path.relative_to(folder).parts:
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = (
                b"x " if path.stat().st_mode & 0o100 else b"- "
            ) + path.read_bytes()
    return found


async def write_out(store: SnapshotStore, snapshot: Snapshot, folder: Path) -> None:
    """Write the kept content of a snapshot into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, entry in (await store.entries(snapshot)).items():
        if not entry.stored:
            continue
        content, target = (
            await store.read(snapshot, path),
            folder / os.fsdecode(raw(path)),
        )
        assert content is not None
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == "120000":
            target.symlink_to(os.fsdecode(content))
        else:
            target.write_bytes(content)
            target.chmod(0o755 if entry.mode == "100755" else 0o644)
