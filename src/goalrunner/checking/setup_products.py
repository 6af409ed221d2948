"""Runs the `setup` command of a goal in a fresh checkout, and keeps what it installed for later checkouts of the run."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from goalrunner.checking.environment import EnvironmentFailed
from goalrunner.checking.protection import MANIFESTS
from goalrunner.core.process_ports import Completion, Launcher
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.fingerprint import Fingerprint, take
from goalrunner.snapshots.restore import remove
from goalrunner.system.launcher import SHELL

SETUP_TIMEOUT = 1_800.0
"""Seconds that `setup` may take."""

_LINES, _LONGEST, _BYTES = 8, 300, 250_000
"""Lines of the end of its output that an error shows, characters of the first error, and bytes of both ends that are read."""

_ERROR = re.compile(r"\berrors?\b|\w+Error\b|\bERR!|\bfatal\b|not found|no such file|failed", re.IGNORECASE)

_CACHES = frozenset({".cache", ".vite", ".vite-temp", ".vitest", ".lock"})
"""Names at the top of a product that tools write at every use. They are not kept."""

_PIP = re.compile(r"(?<![\w./-])(?:pip3?|python3?\s+-m\s+pip)\s")

_COMPILED = (
    "*.c", "*.cc", "*.cpp", "*.cxx", "*.h", "*.hpp", "*.pyx", "*.pxd", "*.rs", "*.f", "*.f90", "*.m", "*.mm",
    "CMakeLists.txt", "*.cmake", "meson.build", "meson.options", "binding.gyp", "build.py", "hatch_build.py",
    ".pnpmfile.cjs",
)  # fmt: skip
"""What is compiled or run during an installation."""

_KNOWN = r"""\s*(?:
        uv\s+sync | poetry\s+install | pdm\s+(?:install|sync) | pipenv\s+(?:install|sync)
      | (?:uv\s+)?pip3?\s+install\s+(?:-\S+\s+)*-e\s+\.(?:\[[\w,\s-]*\])?
      | (?:uv\s+)?pip3?\s+install\s+-r\s+[\w./-]+
      | npm\s+(?:ci|install|i) | pnpm\s+(?:install|i) | yarn(?:\s+install)? | bun\s+install
      | go\s+mod\s+download | cargo\s+fetch | bundle\s+install
    )(?:\s+--?[\w-]+(?:=[\w.,-]+)?)*\s*"""


class Setup:
    """The command `setup` of one run. `here` is the folder that checkouts are made in, `kept` one for its products."""

    def __init__(
        self, command: str, here: Path, kept: Path, launcher: Launcher, scratch: Callable[[str], Path]
    ) -> None:
        self._command = command
        self._here = here
        self._kept = kept
        self._launcher = launcher
        self._scratch = scratch
        self._products: dict[str, dict[str, Fingerprint]] = {}
        self._used = ""

    async def install(
        self, checkout: Path, content: Fingerprint, environ: Callable[[], Mapping[str, str]]
    ) -> Fingerprint:
        """Run the command in a checkout, or reuse what it gave with the same inputs; return the content of the checkout.

        `content` is what the checkout holds before. `environ` gives the environment variables of that moment. Raise
        EnvironmentFailed if the command fails.
        """
        key = await asyncio.to_thread(self._key, checkout, content)
        prefix = f"{checkout.relative_to(self._here)}/"
        if await asyncio.to_thread(self._reuse, key):
            added = {
                f"{name.removeprefix(prefix)}{'/' * bool(path)}{path}": seen
                for name, product in self._products[key].items()
                for path, seen in product.files.items()
                if name.startswith(prefix)
            }
            return Fingerprint({**content.files, **added})
        if _PIP.search(f"{self._command} ") and (python := shutil.which("python3", path=environ().get("PATH"))):
            # pip installs into the environment that it runs in, which must not be the user's.
            await self._run([python, "-m", "venv", str(self._here / "env")], checkout, environ())
        await self._run([SHELL, "-c", self._command], checkout, environ())
        now = await asyncio.to_thread(take, checkout, content, (".git",))
        changes = content.changes(now)
        if all(how == "added" for _, how in changes):
            products = [prefix + name for name in _uppermost(content, (path for path, _ in changes))]
            await asyncio.to_thread(self._remember, key, [*products, "env"])
        return now

    def put_away(self) -> None:
        """Move the products in use out of the checkout, before it is removed."""
        if self._used:
            _move(self._products[self._used], self._here, self._kept / self._used)
            self._used = ""

    async def _run(self, argv: Sequence[str], checkout: Path, env: Mapping[str, str]) -> None:
        output = self._scratch(".setup")
        try:
            done = await self._launcher.launch(argv, cwd=checkout, env=env, output=output, timeout=SETUP_TIMEOUT)
            if done.exit_code != 0:
                raise _failure(self._command, done)
        finally:
            output.unlink(missing_ok=True)

    def _key(self, checkout: Path, content: Fingerprint) -> str:
        digest = hashlib.sha256(self._command.encode())
        for path in input_paths(self._command, sorted(content.files)):
            seen = content.files[path].digest
            if not seen:  # a large file
                with (checkout / path).open("rb") as file:
                    seen = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"\0{path}\0{seen}".encode(errors="surrogateescape"))
        return digest.hexdigest()[:32]

    def _remember(self, key: str, names: Iterable[str]) -> None:
        self._products[key] = {name: _look(self._here / name) for name in names if os.path.lexists(self._here / name)}
        self._used = key

    def _reuse(self, key: str) -> bool:
        """Move kept products into the checkout, if they are as they were installed and nothing stands in their place."""
        kept, products = self._kept / key, self._products.get(key)
        if products is None:
            return False
        if all(
            not seen.changes(_look(kept / name, seen)) and _is_free(self._here, name) for name, seen in products.items()
        ):
            _move(products, kept, self._here)
            self._used = key
            return True
        remove(kept)
        del self._products[key]
        return False


def input_paths(setup: str, paths: Iterable[str]) -> list[str]:
    """Return the paths, of all in a checkout, that decide what `setup` installs.

    For a command that is known to install by manifests alone, these are manifests and what is compiled; for any other one
    (`pip install .` copies the code, `make deps` may do anything) they are all files.
    """
    if not re.fullmatch(_KNOWN, setup, re.VERBOSE):
        return list(paths)
    patterns = Patterns((*MANIFESTS, *_COMPILED), own=True)
    return [path for path in paths if patterns.match(path)]


def _failure(command: str, done: Completion) -> EnvironmentFailed:
    """Return the error with the first line that names one, and the end of the output."""
    with done.output.open("rb") as file:
        data = file.read(_BYTES)
        file.seek(max(file.tell(), done.output.stat().st_size - _BYTES))
        data += file.read()
    lines = [line.rstrip() for line in data.decode(errors="replace").splitlines() if line.strip()]
    first = next((line for line in lines[:-_LINES] if _ERROR.search(line[:_LONGEST])), "")
    shown = [first[:_LONGEST], "..."] if first else []
    end = "".join(f"\n  {line}" for line in (*shown, *lines[-_LINES:]))
    why = done.error or f"exit {done.exit_code}"
    return EnvironmentFailed(
        f"[workspace] setup failed in the fresh checkout ({why}): {command}{end}",
        "correct it in the goal file; it runs in a checkout without ignored files, as after `git clone`",
        permanent=True,
    )


def _uppermost(content: Fingerprint, added: Iterable[str]) -> list[str]:
    """Return the uppermost folders that are new, and new files in folders that are not."""
    folders = {path[: slash.start()] for path in content.files for slash in re.finditer("/", path)}
    found = set()
    for path in added:
        slashes = (slash.start() for slash in re.finditer("/", path))
        found.add(next((path[:end] for end in slashes if path[:end] not in folders), path))
    return sorted(found)


def _look(path: Path, known: Fingerprint | None = None) -> Fingerprint:
    """Return the fingerprint of a folder, or of a single file under an empty name."""
    if path.is_dir() and not path.is_symlink():
        return take(path, known, _CACHES)
    seen = take(path.parent).files.get(path.name)
    return Fingerprint({"": seen} if seen else {})


def _is_free(folder: Path, name: str) -> bool:
    """Return whether nothing stands at a path, and no link leads out of the folder on the way to it."""
    parent = Path(os.path.realpath((folder / name).parent))
    return parent.is_relative_to(os.path.realpath(folder)) and not os.path.lexists(folder / name)


def _move(names: Iterable[str], source: Path, target: Path) -> None:
    """Move products between folders, without what tools cached in them; never through a link."""
    for name in names:
        product = source / name
        if not _is_free(target, name) or Path(os.path.realpath(product.parent)) != product.parent:
            continue
        if product.is_dir() and not product.is_symlink():
            for cache in _CACHES:
                remove(product / cache)
        if os.path.lexists(product):
            (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            product.rename(target / name)
