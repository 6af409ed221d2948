"""The states of the git repositories of a workspace, and the ignore rules at the start of a run."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import Git, Repository, content, enclosing, repository_at
from goalrunner.snapshots.objects import printable_path


class RepositoryStates:
    """Computes hashes of repositories; an index is read again only if its file changed."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._known: dict[Path, tuple[object, bytes]] = {}

    async def state(self, repository: Repository) -> str:
        """Return the hash of HEAD, refs and index."""
        digest = hashlib.sha256(await asyncio.to_thread(_refs, repository))
        digest.update(await self._index(repository))
        return digest.hexdigest()

    async def _index(self, repository: Repository) -> bytes:
        """Return a hash of what is staged, without the times that `git status` refreshes."""
        mark, staged = None, b""
        with contextlib.suppress(OSError):  # git never rewrites an index in place
            info = repository.index.lstat()
            mark = info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
        known = self._known.get(repository.index)
        if known and mark and known[0] == mark:
            return known[1]
        if mark:
            answer = await self._git.run(
                "ls-files", "--stage", "-z", index=repository.index
            )
            # An index in another format (split, SHA-256) is hashed as a file.
            staged = (
                answer.output
                if answer.code == 0
                else await asyncio.to_thread(content, repository.index)
            )
        self._known[repository.index] = mark, hashlib.sha256(staged).digest()
        return self._known[repository.index][1]


def _refs(repository: Repository) -> bytes:
    head = repository.git_dir / "HEAD"
    target = os.fsencode(os.readlink(head)) if head.is_symlink() else content(head)
    refs: dict[bytes, bytes] = {}
    for line in content(repository.common / "packed-refs").splitlines():
        value, _, name = line.partition(b" ")
        if name and not value.startswith((b"#", b"^")):
            refs[name] = value
    for place in (repository.common, repository.git_dir):
        for folder, _, files in os.walk(place / "refs"):
            paths = [Path(folder, file) for file in files]
            refs |= {
                os.fsencode(path.relative_to(place)): content(path).strip()
                for path in paths
            }
    listed = [
        name + b" " + value
        for name, value in sorted(refs.items())
        if not name.startswith(b"refs/remotes/")
    ]
    return b"\n".join(
        [
            target.strip(),
            content(repository.common / "reftable" / "tables.list"),
            *listed,
        ]
    )


def _rules(text: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield the rules of an ignore file as git reads it: `!` or nothing, a pattern, and whether its folder binds it."""
    for given in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = given.removesuffix(b"\r")
        while line.endswith(b" ") and not line.endswith(b"\\ "):
            line = line[:-1]
        pattern = line.removeprefix(b"!")
        if not line.startswith(b"#") and pattern.strip(b"/"):
            yield (
                line[: len(line) - len(pattern)],
                pattern,
                b"/" in pattern.rstrip(b"/"),
            )


def below(text: bytes, folder: bytes) -> list[bytes]:
    """Return the lines of an ignore file in `folder` (relative to the workspace) as lines for the whole workspace."""
    if not folder:
        return [sign + pattern for sign, pattern, _ in _rules(text)]
    base = b"/" + literal(folder) + b"/"
    return [
        sign + base + (pattern.removeprefix(b"/") if is_bound else b"**/" + pattern)
        for sign, pattern, is_bound in _rules(text)
    ]


def above(text: bytes, way: Sequence[bytes]) -> list[bytes]:
    """Return the lines of an ignore file in a parent folder for the workspace; `way` are the folders in between."""
    lines: list[bytes] = []
    for sign, pattern, is_bound in _rules(text):
        rests = _rests(pattern.removeprefix(b"/").split(b"/"), way) if is_bound else []
        lines += (
            [sign + b"/" + b"/".join(rest) for rest in rests]
            if is_bound
            else [sign + pattern]
        )
    return lines


def literal(path: bytes) -> bytes:
    """Return a pattern that matches exactly this path; line breaks match any character."""
    return re.sub(rb"[\n\r]", b"?", re.sub(rb"([*?\[\]\\])", rb"\\\1", path))


def _rests(pattern: Sequence[bytes], way: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Return what is left of a pattern after the folders of the way; several with `**`."""
    if not way or not pattern:
        return [pattern] if any(pattern) and not way else []
    if pattern[0] == b"**":
        return [*_rests(pattern[1:], way), *_rests(pattern, way[1:])]
    # With git's `[^a]` and `\x`.
    text = re.sub(
        r"\\(.)",
        lambda found: f"[{found[1]}]",
        pattern[0].decode("latin-1").replace("[^", "[!"),
    )
    return (
        _rests(pattern[1:], way[1:])
        if re.match(translate(text), way[0].decode("latin-1"))
        else []
    )


class Start:
    """The saved ignore rules of a run, in a folder of their own, which a resumed run reads again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules = folder / "ignore"
        """The file of ignore patterns."""

    @property
    def frozen(self) -> bool:
        return self.rules.is_file() and (self.folder / "tracked").is_file()

    def write(self, lines: list[bytes], commit: str) -> None:
        """Save the patterns, and the commit that is checked out; empty without one. Raise OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.rules, b"".join(line + b"\n" for line in lines), lasting=False)
        write_whole(self.folder / "commit", f"{commit}\n".encode(), lasting=False)

    def write_tracked(self, paths: list[bytes]) -> None:
        """Save the ignored paths that the user's repositories track; to be called last. Raise OSError."""
        write_whole(
            self.folder / "tracked",
            b"".join(path + b"\0" for path in paths),
            lasting=False,
        )

    @property
    def commit(self) -> str | None:
        """The commit that was checked out; empty without one, None if that was not saved."""
        with contextlib.suppress(OSError):
            return (self.folder / "commit").read_text().strip()
        return None

    def tracked(self) -> frozenset[bytes]:
        """Return the ignored paths that the user's repositories track. Raise OSError."""
        return frozenset((self.folder / "tracked").read_bytes().split(b"\0")[:-1])


async def head_of(git: Git) -> str:
    """Return the commit that is checked out in the repository around the workspace; empty without one."""
    found = enclosing(git.workspace)
    if found is None:
        return ""
    answer = await git.run(
        "rev-parse", "--verify", "--quiet", "HEAD", repository=found.git_dir
    )
    return answer.output.decode().strip() if answer.code == 0 else ""


async def committed_paths(git: Git, commit: str) -> Mapping[str, str] | None:
    """Return mode and blob of each file of a commit below the workspace, by its path in the workspace.

    None if the workspace is in no repository, or ignored there; empty if the commit is, or cannot be read.
    """
    repository = repository_at(git.workspace) or await parent_of(git)
    if repository is None:
        return {} if commit else None
    if not commit:
        return {}
    inside = os.path.relpath(git.workspace, repository.root)
    folder = b"" if inside == "." else os.fsencode(f"{inside}/")
    listing = (
        "ls-tree",
        "-r",
        "-z",
        "--full-tree",
        commit,
        *(("--", folder) if folder else ()),
    )
    answer = await git.run(*listing, repository=repository.git_dir)
    rows = answer.output.split(b"\0")[:-1] if answer.code == 0 else []
    paths: dict[str, str] = {}
    for row in rows:
        about, _, path = row.partition(b"\t")
        mode, _, blob = about.decode().split(" ")
        paths[printable_path(path.removeprefix(folder))] = f"{mode} {blob}"
    return paths


async def parent_of(git: Git) -> Repository | None:
    """Return the repository that contains the workspace as a folder; None if it ignores that folder."""
    found = enclosing(git.workspace)
    if found is None or found.root == git.workspace:
        return None
    path = b"./" + os.fsencode(git.workspace.relative_to(found.root))
    answer = await git.run(
        "check-ignore",
        "-q",
        "--no-index",
        "--",
        path,
        tree=found.root,
        repository=found.git_dir,
    )
    return found if answer.code == 1 else None


async def ignore_rules(
    git: Git, parent: Repository | None, home: Path
) -> tuple[list[bytes], list[Repository]]:
    """Return the lines of all current ignore files, the strongest last, and the repositories in the workspace."""
    answer = await git.ask(
        *(
            "ls-files",
            "--others",
            "--ignored",
            "--directory",
            "--exclude-per-directory=.gitignore",
            "-z",
        ),
        tree=git.workspace,
        index=git.store / "none",
    )
    closed = frozenset(
        path.rstrip(b"/") for path in answer.split(b"\0") if path.endswith(b"/")
    )
    lines = _from_above(git.workspace, parent) if parent else []
    repositories: list[Repository] = []
    for folder, names in await asyncio.to_thread(
        lambda: list(_folders(git.workspace, closed))
    ):
        place = git.workspace / os.fsdecode(folder) if names else git.workspace
        repository = repository_at(place) if b".git" in names else None
        if repository:
            repositories.append(repository)
            # Only its own rules apply to a nested repository.
            lines += [b"!/" + literal(folder) + b"/**"] if folder else []
            lines += below(content(repository.common / "info" / "exclude"), folder)
        if b".gitignore" in names and not (place / ".gitignore").is_symlink():
            lines += below(content(place / ".gitignore"), folder)
    if home.is_relative_to(git.workspace):
        lines.append(
            b"/" + literal(os.fsencode(home.relative_to(git.workspace))) + b"/"
        )
    return lines, repositories


async def tracked_paths(git: Git, repositories: list[Repository]) -> set[bytes]:
    """Return what the user's repositories track below the workspace. Raise WorkspaceError if git cannot read an index."""
    paths: set[bytes] = set()
    for repository in repositories:
        if not repository.index.exists():
            continue
        arguments = ("ls-files", "--cached", "-z")
        answer = await git.run(*arguments, index=repository.index)
        if answer.code != 0:  # an index in another format than the store's
            answer = await git.run(
                *arguments, index=repository.index, repository=repository.git_dir
            )
        if answer.code != 0:
            words = answer.errors.decode("utf-8", "replace").strip()
            hint = f"see what `git -C {repository.root} status` says"
            raise WorkspaceError(
                f"the index of {repository.root} cannot be read: {words}", hint
            )
        listed = answer.output.split(b"\0")[:-1]
        if repository.root == git.workspace:
            paths.update(listed)
            continue
        root, outer = (
            os.fsencode(repository.root) + b"/",
            os.fsencode(git.workspace) + b"/",
        )
        found = (root + path for path in listed)
        paths |= {path.removeprefix(outer) for path in found if path.startswith(outer)}
    return paths


def _from_above(workspace: Path, parent: Repository) -> list[bytes]:
    way = workspace.relative_to(parent.root).parts
    names = [os.fsencode(name) for name in way]
    lines = above(content(parent.common / "info" / "exclude"), names)
    for depth in range(len(way)):
        lines += above(
            content(parent.root.joinpath(*way[:depth], ".gitignore")), names[depth:]
        )
    return lines


_NAMES = frozenset({b".git", b".gitignore"})


def _folders(
    workspace: Path, closed: frozenset[bytes]
) -> Iterator[tuple[bytes, frozenset[bytes]]]:
    """Yield every folder that is not ignored, outer ones first, and which of `_NAMES` it contains."""
    root = os.fsencode(workspace)
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        entries: list[os.DirEntry[bytes]] = []
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                entries += found
        except OSError as error:
            if not folder:
                raise WorkspaceError(
                    f"{printable_path(root)} cannot be read: {error.strerror}"
                ) from error
        yield folder, _NAMES.intersection(entry.name for entry in entries)
        inner = [
            entry.name
            for entry in entries
            if entry.name != b".git" and entry.is_dir(follow_symlinks=False)
        ]
        waiting += {os.path.join(folder, name) for name in inner} - closed
