"""Paths in the workspace, and reading and replacing files there."""

from __future__ import annotations

import difflib
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from goalrunner.agents.tool import ToolError

_MOST_NAMES = 5_000
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".tox"})


def near_names(root: Path, path: Path, most: int = 3) -> list[str]:
    """Return paths below `root` that `path` may have meant: the same name elsewhere first, then similar paths."""
    known = list(itertools.islice(_below(root), _MOST_NAMES))
    same = [name for name in known if Path(name).name == path.name]
    alike = difflib.get_close_matches(str(path.relative_to(root)), known, n=most, cutoff=0.7)
    return list(dict.fromkeys([*same, *alike]))[:most]


def _below(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(files):
            yield str((Path(folder) / name).relative_to(root))


_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC


def inside(root: Path, text: str) -> Path:
    """Return the real path of what a model named, relative to the workspace `root` or absolute inside it.

    Raise ToolError if it is outside, by `..`, as an absolute path, or through a symbolic link.
    """
    if not text.strip():
        raise ToolError("the path is empty; give one relative to the workspace")
    if "\0" in text:
        raise ToolError("the path contains a NUL character")
    named = root / text
    real = Path(os.path.realpath(named))
    if not real.is_relative_to(root):
        lexical = Path(os.path.normpath(named))
        way = "follows a symbolic link to" if lexical.is_relative_to(root) else "leads to"
        said = f"{text} {way} {real}, outside the workspace {root}; the file tools work only inside it"
        raise ToolError(said, "outside the workspace")
    return real


def relative(root: Path, text: str) -> str:
    """Return the same path relative to the workspace, with forward slashes. Raise ToolError like `inside`."""
    return inside(root, text).relative_to(root).as_posix()


def must_exist(root: Path, text: str) -> Path:
    """Return the same for a path that must exist; the error names similar ones."""
    path = inside(root, text)
    if path.exists():
        return path
    near = near_names(root, path)
    hint = f"; there is {', '.join(near)}" if near else ""
    raise ToolError(f"{text} does not exist in the workspace{hint}", "does not exist")


def read_regular(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Raise ToolError for a pipe or device, and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _SAFE)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{path.name} is no regular file")
        if found.st_size > limit:
            size = f"{found.st_size:,} bytes"
            raise ToolError(f"{path.name} is too large for this tool ({size}, at most {limit:,}); use shell")
        return file.read()


def file_mode(path: Path, text: str) -> int | None:
    """Return the permission bits of a file, or None if there is none. Raise ToolError if it cannot be written."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{text} is a directory", "is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{text} is no regular file", "is no regular file")
    if not os.access(path, os.W_OK):
        raise ToolError(f"{text} is not writable", "is not writable")
    return stat.S_IMODE(found.st_mode)


def replace(root: Path, path: Path, data: bytes, mode: int | None) -> None:
    """Write `data` to `path` as a whole or not at all, with parents and the given mode (None: that of the umask)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Checked again after the parents exist: one may be a symbolic link now.
    parent = Path(os.path.realpath(path.parent))
    if not parent.is_relative_to(root):
        raise ToolError(f"{path.parent} follows a symbolic link out of the workspace", "outside the workspace")
    temporary = parent / f".goal-{secrets.token_hex(6)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        temporary.replace(parent / path.name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def to_crlf(text: str) -> str:
    """Return the text with CRLF line ends."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def with_ends_of(old: bytes, text: str) -> str:
    """Return the text with CRLF line ends if all lines of `old` have them."""
    ends = old.count(b"\n")
    return to_crlf(text) if ends > 0 and ends == old.count(b"\r\n") else text
