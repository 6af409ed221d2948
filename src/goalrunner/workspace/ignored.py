"""What stands in the workspace though a rule ignores it: dependencies, build products, databases. Owns one look at it.

No snapshot holds these files. Whether they are as they were is told by their names, sizes and times alone.
"""

# Names on disk are bytes, which pathlib does not take.

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable

from goalrunner.workspace.caches import CACHES

_FOLDERS = tuple(os.fsencode(f"/{pattern}") for pattern in CACHES if pattern.endswith("/"))
_NAMES = [os.fsencode(pattern) for pattern in CACHES if not pattern.endswith("/")]
_WHOLE = frozenset(name for name in _NAMES if b"*" not in name)
_ENDINGS = tuple(name[1:] for name in _NAMES if name.startswith(b"*"))
_BEGINNINGS = tuple(name[:-1] for name in _NAMES if name.endswith(b"*"))
"""The table holds no other kinds of patterns; a test says so. An expression for all of them would take twice as long."""


def look(root: bytes, ignored: Iterable[bytes], home: bytes) -> bytes:
    """A hash over ignored paths below `root`; those that end with a slash are whole folders.

    Caches are left out, and so is the folder `home`, in which the run itself is written down.
    """
    digest = hashlib.sha256()
    for path in sorted(ignored):
        if path.endswith(b"/"):
            _folder(root, path.rstrip(b"/"), os.path.relpath(home, root), digest)
        elif not _is_cache(path):
            _add(root, path, digest)
    return digest.digest()


def _folder(root: bytes, folder: bytes, home: bytes, digest: hashlib._Hash) -> None:
    """Every name, size and time below a folder; a link is one name. 50,000 files cost some 0.2 s."""
    if folder == home or _is_cache(folder + b"/"):
        return
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(os.path.join(root, here)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:  # it vanished, or cannot be read
            continue
        lines = [b"%b/" % here]
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                inner = os.path.join(here, entry.name)
                if inner != home and not _is_cache(inner + b"/"):
                    waiting.append(inner)
            elif not _is_cached(entry.name):
                with contextlib.suppress(OSError):
                    lines.append(_line(entry.name, entry.stat(follow_symlinks=False)))
        if len(lines) > 1:  # a folder without files is none
            digest.update(b"\0".join(lines) + b"\0")


def _add(root: bytes, path: bytes, digest: hashlib._Hash) -> None:
    with contextlib.suppress(OSError):  # it vanished
        digest.update(_line(path, os.lstat(os.path.join(root, path))) + b"\0")


def _line(name: bytes, info: os.stat_result) -> bytes:
    return b"%b\0%d %d %d %d" % (name, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ino)


def _is_cache(path: bytes) -> bool:
    if path.endswith(b"/"):
        return (b"/" + path).endswith(_FOLDERS)
    return _is_cached(os.path.basename(path))


def _is_cached(name: bytes) -> bool:
    return name in _WHOLE or name.endswith(_ENDINGS) or name.startswith(_BEGINNINGS)
