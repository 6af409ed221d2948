"""Which paths are protected, and which of them were touched. Owns the rules and their words; restores nothing."""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from goalrunner.workspace.entry import Entry
from goalrunner.workspace.lookup import Lookup
from goalrunner.workspace.patterns import Patterns
from goalrunner.workspace.precedence import Precedence, script_folders
from goalrunner.workspace.steering import STEERING, shadow

LINK = "120000"
"""git's mode of a symbolic link."""

EXECUTABLE = "100755"
"""git's mode of a file that can be run."""

_ANY_CHILD = "/\N{REPLACEMENT CHARACTER}"
"""A name that no pattern spells out: what it matches below a path, everything below that path matches."""


@dataclass(frozen=True)
class Touched:
    """One protected path that is not as it was at the start, and the rule that protects it."""

    path: str
    kind: Literal["changed", "deleted", "planted"]
    rule: str
    lift: str = ""
    """The line of the goal file that takes the path out; empty where nothing does."""

    def __str__(self) -> str:
        """In words: `tests/test_a.py was changed; protect = "tests/**"`."""
        return f"{self.path} was {self.kind}; {self.rule}"


class _Rules:
    """A table of patterns with a reason for each; the last pattern that matches decides."""

    def __init__(self, rows: Iterable[tuple[str, str]], *, own: bool = False) -> None:
        self._reasons = {_same(pattern): reason for pattern, reason in rows}
        self._patterns = Patterns(tuple(self._reasons), own=own)

    def why(self, path: str) -> str | None:
        """The reason, or None."""
        line = self._patterns.rule(_same(path))
        return None if line is None else self._reasons[line]


class Protection:
    """Which paths are protected. Patterns are those of a gitignore file, matched without regard to case.

    `always` maps a path to the reason why it is protected whatever `protect` and `allow` say: the goal file, and the
    scripts that validators name ('named by validator "check"'). The files that steer a test runner are protected with
    `protect` alone: without it, nothing but `always` is. `roots` are the folders that Python puts first for the modules
    that validators name (`python -m`), "" for the workspace itself. `lookup` is where programs are looked up: one that is
    planted there before the machine's own is refused without `protect` as well.
    """

    def __init__(
        self,
        protect: Sequence[str] = (),
        allow: Sequence[str] = (),
        always: Mapping[str, str] | None = None,
        roots: Iterable[str] = (),
        lookup: Lookup | None = None,
    ) -> None:
        self.protect = tuple(protect)
        self.allow = tuple(allow)
        self.always = dict(always or {})
        self.roots = frozenset(roots)
        self.lookup = lookup or Lookup()
        steering = ((p, f"steers {row.steers} ({p.rstrip('/')})") for row in STEERING for p in row.patterns)
        self._always = _Rules(((_literal(path), reason) for path, reason in self.always.items()), own=True)
        self._protect = _Rules((pattern, f'protect = "{pattern}"') for pattern in self.protect)
        self._steering = _Rules(steering if self.active else (), own=True)
        self._allow = _Rules((pattern, f'allow = "{pattern}"') for pattern in self.allow)

    @property
    def active(self) -> bool:
        """Whether the goal says `protect` at all."""
        return bool(self.protect)

    def why(self, path: str) -> str | None:
        """The rule that protects a path; None: it is free."""
        if reason := self._always.why(path):
            return reason
        if self.allowed(path):
            return None
        return self._protect.why(path) or self._steering.why(path)

    def why_link(self, path: str) -> str | None:
        """The rule that protects a link at that path: its own, or the one of everything that would stand below it."""
        return self.why(path) or self.why(path + _ANY_CHILD)

    def allowed(self, path: str) -> bool:
        """Whether the goal's `allow` names it."""
        return self._allow.why(path) is not None

    def lift(self, path: str) -> str:
        """The line of the goal file that takes a path out; empty for what is always protected."""
        return "" if self._always.why(path) else f'[workspace] allow = ["{path}"]'

    def named(self, path: str) -> bool:
        """Whether the goal itself says so, by `protect` or `always`; else it is the table of steering files."""
        return bool(self._always.why(path) or self._protect.why(path))

    def named_link(self, path: str) -> bool:
        """`named`, for a link."""
        return self.named(path) or self.named(path + _ANY_CHILD)

    def following(self, links: Mapping[str, str]) -> Protection:
        """With what its protected links lead to: `links` are the links of the base, path -> where each leads.

        `protect = "tests/**"` where `tests` is a link to `suite` protects `suite` as well.
        """
        always, before = dict(self.always), -1
        while len(always) > before:
            before, now = len(always), Protection(self.protect, self.allow, always)
            for path, target in links.items():
                there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                if now.why_link(path) and there not in (".", "..") and not there.startswith(("/", "../")):
                    always.setdefault(there, f'reached through the protected link "{path}"')
        return Protection(self.protect, self.allow, always, self.roots, self.lookup)


def touched(
    protection: Protection, base: Mapping[str, Entry], now: Mapping[str, Entry], *, caches: Patterns | None = None
) -> tuple[Touched, ...]:
    """Every protected path that differs from the base, sorted. Caches that the base has not are nobody's doing."""
    found: dict[str, Touched] = {}
    shadows = _Shadows(protection, base)
    environments = _environments(base, now) if protection.active else frozenset()
    for path in sorted(base.keys() | now.keys()):
        if folder := next((folder for folder in _above(path) if folder in environments), None):
            if not protection.allowed(path):
                found.setdefault(
                    f"{folder}/", Touched(f"{folder}/", "planted", _ENVIRONMENT, protection.lift(f"{folder}/"))
                )
            continue
        old, new = base.get(path), now.get(path)
        if old is not None and new is not None and (old.mode, old.blob) == (new.mode, new.blob):
            continue
        if old is None and caches is not None and caches.match(path) and not _steers(protection, path):
            continue
        if rule := _rule_of(protection, path, old, new, shadows):
            kind: Literal["changed", "deleted", "planted"]
            kind = "planted" if old is None else "deleted" if new is None else "changed"
            found[path] = Touched(path, kind, rule, protection.lift(path))
    for path, rule in _in_the_way(found, now):
        if caches is not None and caches.match(path):
            continue
        kind = "changed" if path in base else "planted"
        found.setdefault(path, Touched(path, kind, rule, protection.lift(path)))
    return tuple(found[path] for path in sorted(found))


def import_roots(protection: Protection, base: Mapping[str, Entry]) -> frozenset[str]:
    """The folders that imports may start from: the workspace, `src`, `lib`, and all above a file that `protect` names."""
    roots = {"", "src", "lib"}
    for path in base:
        if path.rpartition("/")[0] not in roots and protection.named(path):
            roots.update(_above(path))
    return frozenset(roots)


_ENVIRONMENT = "an environment that was not there at the start; use [workspace] setup or link"


def _environments(base: Mapping[str, Entry], now: Mapping[str, Entry]) -> frozenset[str]:
    """New folders of installed packages: whoever fills one decides what the runner itself is."""
    places = {path.rpartition("/")[0] for path in now if path.endswith("/pyvenv.cfg")}
    for path in now:
        if "node_modules/" in path:
            before, _, _ = f"/{path}".partition("/node_modules/")
            places.add(f"{before}/node_modules".removeprefix("/"))
    return frozenset(place for place in places if not any(path.startswith(f"{place}/") for path in base))


class _Shadows:
    """What a planted file would be found before. Without `protect`, only before what is always protected."""

    def __init__(self, protection: Protection, base: Mapping[str, Entry]) -> None:
        self._base = base
        self._active = protection.active
        always = {path for path in protection.always if path in base}
        self._precedence = Precedence(
            base, lambda path: protection.named(path) and protection.why(path) is not None, always, _same
        )
        self._roots = import_roots(protection, base) if self._active else frozenset()
        runnable = {path for path in always if base[path].mode in (EXECUTABLE, LINK)}
        self._scripts = script_folders(always, runnable) | protection.roots

    def before(self, path: str, new: Entry) -> str | None:
        """In words; None: nothing that counts."""
        is_link = new.mode == LINK
        if before := self._precedence.before(path, is_link=is_link):
            return before
        if not self._active:
            return None
        names = (path, f"{path}/__init__.py") if is_link else (path,)  # a link may lead to a package
        before = next(
            filter(None, (self._known(name, executable=is_link or new.mode == EXECUTABLE) for name in names)), None
        )
        if before is None or any(self._known(other, executable=True) == before for other in _beside(path, self._base)):
            return None
        return before

    def _known(self, path: str, *, executable: bool) -> str | None:
        return shadow(path, self._roots, executable=executable, scripts=self._scripts)


def _rule_of(
    protection: Protection,
    path: str,
    old: Entry | None,
    new: Entry | None,
    shadows: _Shadows,
) -> str | None:
    """Why a path that differs is protected; None: it is not."""
    is_link = any(entry is not None and entry.mode == LINK for entry in (old, new))
    if rule := protection.why_link(path) if is_link else protection.why(path):
        return rule
    if protection.allowed(path):
        return None
    if rule := _program_rule(protection.lookup, path, old, new):
        return rule
    if new is None or old is not None:
        return None
    before = shadows.before(path, new)
    return None if before is None else f"shadows {before}"


def _program_rule(lookup: Lookup, path: str, old: Entry | None, new: Entry | None) -> str | None:
    """Why a new program, or a link on the way to programs, counts. One of the start that changed is the work itself, unless
    a check is started by it."""
    if old is not None and path in lookup.named:
        return lookup.named[path]
    if new is None:
        return None
    if new.mode == LINK and lookup.leads(path):
        return "a link that PATH leads through"
    runs = new.mode in (EXECUTABLE, LINK)
    ran = old is not None and old.mode in (EXECUTABLE, LINK)
    before = lookup.before(path) if runs and not ran else None
    return None if before is None else f"shadows {before}"


def _beside(path: str, base: Mapping[str, Entry]) -> Iterator[str]:
    """What stood at the start where the same module may stand: `a.py` beside `a/__init__.py`."""
    stem = path.removesuffix("/" + path.rpartition("/")[2]) if "/__init__." in path else path.partition(".")[0]
    return (other for other in (f"{stem}.py", f"{stem}/__init__.py", path) if other in base)


def _in_the_way(found: Mapping[str, Touched], now: Mapping[str, Entry]) -> list[tuple[str, str]]:
    """What stands where a protected path of the base belongs: a file or link in place of its folder, or files below it."""
    gone = {path: entry.rule for path, entry in found.items() if entry.kind == "deleted"}
    above = [(parent, rule) for path, rule in gone.items() for parent in _above(path) if parent in now]
    below = [
        (path, gone[parent])
        for path in (now if gone else ())
        if (parent := next((parent for parent in _above(path) if parent in gone), None)) is not None
    ]
    return above + below


def _above(path: str) -> Iterator[str]:
    """Its folders, the nearest first, without the workspace itself."""
    while path := posixpath.dirname(path):
        yield path


def _steers(protection: Protection, path: str) -> bool:
    # A cache folder that ignores itself (pytest, mypy and ruff write such a file) steers nobody.
    return not path.endswith("/.gitignore") and protection.why(path) is not None and not protection.named(path)


def _same(text: str) -> str:
    """One spelling for what a file system may take for one name."""
    return unicodedata.normalize("NFC", text.removeprefix("./")).casefold()


def _literal(path: str) -> str:
    """A pattern that matches this path alone."""
    return "/" + "".join(f"\\{char}" if char in "\\*?[]!# " else char for char in path)
