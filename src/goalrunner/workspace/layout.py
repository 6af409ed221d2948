"""The folder of a store. Owns its making and its configuration, which leaves git nothing to find elsewhere."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.workspace.command import Git
from goalrunner.workspace.objects import write_file

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tprotecthfs = false
\tprotectntfs = false
\tautocrlf = false
\tsafecrlf = false
\ttrustctime = true
\tcheckstat = default
\tuntrackedcache = false
\tfsmonitor = false
\thookspath = /dev/null
\tattributesfile = /dev/null
\texcludesfile = /dev/null
\tloosecompression = 1
\tcompression = 1
\tlogallrefupdates = false
[gc]
\tautodetach = false
[maintenance]
\tauto = false
"""

_ATTRIBUTES = "* -text !eol !crlf -ident -filter !working-tree-encoding !diff !merge !export-ignore !export-subst\n"
"""Stronger than any .gitattributes: content is bytes, whatever a workspace says of line ends, filters or encodings."""


_SAMPLE, _LOOSE, _PACKS = "17", 20, 40
"""Git looks at this one of the 256 folders of loose objects: more than 27 there, or more than 50 packs, are too many."""


def store_name(workspace: Path) -> str:
    """The name of a workspace's store; the path is absolute and without links."""
    return hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


def make_store(folder: Path) -> None:
    """Make the store, or mend what is missing of it. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is that of the last folder alone
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/snapshots", "info"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in (("config", _CONFIG), ("info/attributes", _ATTRIBUTES), ("HEAD", "ref: refs/heads/none\n")):
        write_file(folder / name, text.encode())


def is_crowded(folder: Path) -> bool:
    """Whether `git gc --auto` may find something to do. It counts as this does, only that it begins a little later."""
    loose = sum(1 for _ in (folder / "objects" / _SAMPLE).glob("*"))
    packs = sum(1 for _ in (folder / "objects" / "pack").glob("*.pack"))
    return loose > _LOOSE or packs > _PACKS


async def packs_well(git: Git) -> bool:
    """Whether this git puts the files of one `update-index` into one pack. Raises WorkspaceError for one too old."""
    found = re.match(rb"git version (\d+)\.(\d+)", await git.ask("version"))
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < (2, 31):
        raise WorkspaceError("git is too old for snapshots of the workspace", "install git 2.31 or newer")
    return version >= (2, 38)
