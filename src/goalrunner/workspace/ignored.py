"""What stands in the workspace though a rule ignores it: dependencies, build products, databases. Owns one look at it.

No snapshot holds these files. Whether they are as they were is told by their names, sizes and times alone.
"""

# Names on disk are bytes, which pathlib does not take.

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from fnmatch import translate

from goalrunner.workspace.caches import CACHES

_FOLDERS = tuple(os.fsencode(f"/{pattern}") for pattern in CACHES if pattern.endswith("/"))
_FILES = re.compile("|".join(translate(pattern) for pattern in CACHES if not pattern.endswith("/")))


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
    if folder == home or _is_cache(folder + b"/"):
        return
    for way, folders, files in os.walk(os.path.join(root, folder)):
        here = os.path.relpath(way, root)
        inner = (name for name in sorted(folders) if os.path.join(here, name) != home)
        folders[:] = [name for name in inner if not _is_cache(os.path.join(here, name, b""))]
        links = [name for name in folders if os.path.islink(os.path.join(way, name))]
        for name in sorted([*files, *links]):
            if not _is_cache(name):
                _add(root, os.path.join(here, name), digest)


def _add(root: bytes, path: bytes, digest: hashlib._Hash) -> None:
    try:
        info = os.lstat(os.path.join(root, path))
    except OSError:  # it vanished
        return
    digest.update(b"%b\0%d %d %d %d\0" % (path, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ino))


def _is_cache(path: bytes) -> bool:
    if path.endswith(b"/"):
        return (b"/" + path).endswith(_FOLDERS)
    return _FILES.match(os.fsdecode(os.path.basename(path))) is not None
