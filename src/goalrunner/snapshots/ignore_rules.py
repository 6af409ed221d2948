"""The ignore rules at the start of a run, and patterns of caches."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.objects import shown, write_file
from goalrunner.snapshots.repositories import Repository, content, enclosing, repository_at

_SPECIAL = re.compile(rb"([*?\[\]\\])")
_BREAK = re.compile(rb"[\n\r]")


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file, without its `!`."""

    body: bytes
    negated: bool = False

    @property
    def anchored(self) -> bool:
        """Whether a slash at the start or inside binds the pattern to its own folder."""
        return b"/" in self.body.rstrip(b"/")

    def line(self, body: bytes) -> bytes:
        """Return the line with another body."""
        return (b"!" if self.negated else b"") + body


def parse(text: bytes) -> Iterator[Rule]:
    """Yield the rules of an ignore file as git reads it, without comments, trailing blanks and byte order mark."""
    for given in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = given.removesuffix(b"\r")
        while line.endswith(b" ") and not line.endswith(b"\\ "):
            line = line[:-1]
        negated = line.startswith(b"!")
        body = line.removeprefix(b"!")
        if line.startswith(b"#") or not body.strip(b"/"):
            continue
        yield Rule(body, negated)


def below(text: bytes, folder: bytes) -> list[bytes]:
    """Return the lines of an ignore file in `folder` (relative to the workspace) as lines for the whole workspace."""
    if not folder:
        return [rule.line(rule.body) for rule in parse(text)]
    base = b"/" + literal(folder) + b"/"
    return [
        rule.line(base + (rule.body.removeprefix(b"/") if rule.anchored else b"**/" + rule.body))
        for rule in parse(text)
    ]


def above(text: bytes, way: Sequence[bytes]) -> list[bytes]:
    """Return the lines of an ignore file in a parent folder; `way` are the names of the folders from there to the workspace."""
    lines: list[bytes] = []
    for rule in parse(text):
        if not rule.anchored:
            lines.append(rule.line(rule.body))
            continue
        rests = _rests(tuple(rule.body.removeprefix(b"/").split(b"/")), tuple(way))
        lines += [rule.line(b"/" + b"/".join(rest)) for rest in rests]
    return lines


def literal(path: bytes) -> bytes:
    """Return a pattern that matches exactly this path; line breaks match any character."""
    return _BREAK.sub(b"?", _SPECIAL.sub(rb"\\\1", path))


def _rests(pattern: tuple[bytes, ...], way: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
    """Return what is left of a pattern after the folders of the way; several with `**`."""
    if not way:
        return [pattern] if any(pattern) else []
    if not pattern:
        return []
    if pattern[0] == b"**":
        return [*_rests(pattern[1:], way), *_rests(pattern, way[1:])]
    if not _same(pattern[0], way[0]):
        return []
    return _rests(pattern[1:], way[1:])


def _same(pattern: bytes, name: bytes) -> bool:
    """Return whether a pattern without slashes matches a name, with git's `[^a]` and `\\x`."""
    text = re.sub(r"\\(.)", lambda found: f"[{found[1]}]", pattern.decode("latin-1").replace("[^", "[!"))
    return re.match(translate(text), name.decode("latin-1")) is not None


class Start:
    """The saved ignore rules of a run, in a folder of their own, which a resumed run reads again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def rules(self) -> Path:
        """The file of ignore patterns."""
        return self.folder / "ignore"

    @property
    def frozen(self) -> bool:
        """Whether the rules were saved completely."""
        return self.rules.is_file() and (self.folder / "tracked").is_file()

    def write_rules(self, lines: list[bytes]) -> None:
        """Save the patterns. Raise OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self.rules, b"".join(line + b"\n" for line in lines))

    def write_tracked(self, paths: list[bytes]) -> None:
        """Save the ignored paths that the user's repositories track; to be called last. Raise OSError."""
        write_file(self.folder / "tracked", b"".join(path + b"\0" for path in paths))

    def tracked(self) -> frozenset[bytes]:
        """Return the ignored paths that the user's repositories track. Raise OSError."""
        return frozenset((self.folder / "tracked").read_bytes().split(b"\0")[:-1])


async def parent_of(git: Git) -> Repository | None:
    """Return the repository that contains the workspace as a folder; None if it ignores that folder."""
    found = enclosing(git.workspace)
    if found is None or found.root == git.workspace:
        return None
    way = git.workspace.relative_to(found.root)
    path = b"./" + os.fsencode(way)
    answer = await git.run("check-ignore", "-q", "--no-index", "--", path, tree=found.root, repository=found.git_dir)
    return found if answer.code == 1 else None


async def ignore_rules(git: Git, parent: Repository | None, home: Path) -> tuple[list[bytes], list[Repository]]:
    """Return the lines of all current ignore files, the strongest last, and the repositories in the workspace."""
    answer = await git.ask(
        *("ls-files", "--others", "--ignored", "--directory", "--exclude-per-directory=.gitignore", "-z"),
        tree=git.workspace,
        index=git.store / "none",
    )
    closed = frozenset(path.rstrip(b"/") for path in answer.split(b"\0") if path.endswith(b"/"))
    lines = _from_above(git.workspace, parent) if parent else []
    repositories: list[Repository] = []
    for folder, has_repository in await asyncio.to_thread(lambda: list(_folders(git.workspace, closed))):
        place = git.workspace / os.fsdecode(folder)
        repository = repository_at(place) if has_repository else None
        if repository:
            repositories.append(repository)
            # Only its own rules apply to a nested repository.
            lines += [b"!/" + literal(folder) + b"/**"] if folder else []
            lines += below(content(repository.common / "info" / "exclude"), folder)
        if not os.path.islink(place / ".gitignore"):  # also False in a folder that cannot be read
            lines += below(content(place / ".gitignore"), folder)
    if home.is_relative_to(git.workspace):
        lines.append(b"/" + literal(os.fsencode(home.relative_to(git.workspace))) + b"/")
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
            answer = await git.run(*arguments, index=repository.index, repository=repository.git_dir)
        if answer.code != 0:
            words = answer.errors.decode("utf-8", "replace").strip()
            hint = f"see what `git -C {repository.root} status` says"
            raise WorkspaceError(f"the index of {repository.root} cannot be read: {words}", hint)
        paths.update(_relative(answer.output.split(b"\0")[:-1], repository.root, git.workspace))
    return paths


def _relative(paths: list[bytes], root: Path, workspace: Path) -> Iterator[bytes]:
    if root.is_relative_to(workspace):
        prefix = os.fsencode(root.relative_to(workspace)) + b"/" if root != workspace else b""
        return (prefix + path for path in paths)
    outer = os.fsencode(workspace.relative_to(root)) + b"/"
    return (path.removeprefix(outer) for path in paths if path.startswith(outer))


def _from_above(workspace: Path, parent: Repository) -> list[bytes]:
    way = workspace.relative_to(parent.root).parts
    names = [os.fsencode(name) for name in way]
    lines = above(content(parent.common / "info" / "exclude"), names)
    for depth in range(len(way)):
        lines += above(content(parent.root.joinpath(*way[:depth], ".gitignore")), names[depth:])
    return lines


def _folders(workspace: Path, closed: frozenset[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield every folder that is not ignored, outer ones first, and whether it contains `.git`."""
    root = os.fsencode(workspace)
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        inner: list[bytes] = []
        has_repository = False
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    if entry.name == b".git":
                        has_repository = True
                    elif entry.is_dir(follow_symlinks=False) and path not in closed:
                        inner.append(path)
        except OSError as error:
            if not folder:
                raise WorkspaceError(f"{shown(root)} cannot be read: {error.strerror}") from error
        yield folder, has_repository
        waiting += inner


CACHES: tuple[str, ...] = (
    # Python: compiled modules, test runners, type checkers, linters.
    "__pycache__/",
    ".pytest_cache/",
    ".hypothesis/",
    ".testmondata*",
    ".mypy_cache/",
    ".dmypy.json",
    ".pytype/",
    ".pyre/",
    ".ruff_cache/",
    ".import_linter_cache/",
    ".tox/",
    ".nox/",
    ".ipynb_checkpoints/",
    # Coverage: the measurement and its report.
    ".coverage",
    ".coverage.*",
    "htmlcov/",
    ".nyc_output/",
    # JavaScript: caches of bundlers, compilers, linters.
    "node_modules/.cache/",
    "node_modules/.vite/",
    "node_modules/.vitest/",
    ".eslintcache",
    ".stylelintcache",
    ".parcel-cache/",
    ".turbo/",
    "*.tsbuildinfo",
    # Builds and systems.
    ".gradle/",
    ".DS_Store",
    "Thumbs.db",
)
"""Patterns as in a .gitignore."""
