"""Runs the `setup` command of a goal in a fresh checkout, and keeps what it installed for later checkouts of the run."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from goalrunner.checking.dependencies import state_of
from goalrunner.checking.environment import EnvironmentFailed
from goalrunner.checking.protection import MANIFESTS
from goalrunner.core.ports import Completion, Launcher, running
from goalrunner.core.shell_programs import started_programs
from goalrunner.core.tools import PROJECT_RUNNERS
from goalrunner.records.files import remove
from goalrunner.snapshots.diff import Patterns
from goalrunner.system.launcher import SHELL, tail_of

SETUP_TIMEOUT = 1_800.0
"""Seconds that `setup` may take."""

_LINES = 8
"""Lines of the end of its output that an error shows."""

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
    """The command `setup` of one run. `here` is the folder for checkouts, and `kept` the folder for the installed products."""

    def __init__(
        self, command: str, here: Path, kept: Path, launcher: Launcher, scratch: Callable[[str], Path]
    ) -> None:
        self._command = command
        self._here = here
        self._kept = kept
        self._launcher = launcher
        self._scratch = scratch
        self._key = ""
        """The key of the inputs from which the products were made."""
        self._products: dict[str, str] = {}
        """The installed paths, relative to `here`, with their states."""
        self._in_use = False

    async def install(self, checkout: Path, git: Callable[..., str], environ: Callable[[], Mapping[str, str]]) -> None:
        """Run the command in a checkout, or reuse the products of the same inputs.

        `git` calls git in the checkout, where every file is committed. `environ` gives the environment variables of that
        moment. Raise EnvironmentFailed if the command fails.
        """
        key = await asyncio.to_thread(self._key_of, git)
        if key == self._key and await asyncio.to_thread(self._reuse):
            return
        self._key = ""
        await asyncio.to_thread(remove, self._kept)
        if _PIP.search(f"{self._command} ") and (python := shutil.which("python3", path=environ().get("PATH"))):
            # pip installs into the environment that it runs in, which must not be the user's.
            await self._run([python, "-m", "venv", str(self._here / "env")], checkout, environ())
        await self._run([SHELL, "-c", self._command], checkout, environ())
        if not await asyncio.to_thread(git, "status", "--porcelain", "--untracked-files=no"):
            added = await asyncio.to_thread(git, "ls-files", "-z", "--others", "--directory")
            names = [f"{checkout.relative_to(self._here)}/{name.rstrip('/')}" for name in added.split("\0")[:-1]]
            await asyncio.to_thread(self._remember, key, [*names, "env"])

    def put_away(self) -> None:
        """Move the products in use out of the checkout, before it is removed."""
        if self._in_use:
            self._move(self._here, self._kept)
            self._in_use = False

    async def _run(self, argv: Sequence[str], checkout: Path, env: Mapping[str, str]) -> None:
        output = self._scratch(".setup")
        try:
            with running("setup", self._command, output):
                done = await self._launcher.launch(argv, cwd=checkout, env=env, output=output, timeout=SETUP_TIMEOUT)
            if done.exit_code != 0:
                raise _failure(self._command, done)
        finally:
            output.unlink(missing_ok=True)

    def _key_of(self, git: Callable[..., str]) -> str:
        rows = (row.partition("\t") for row in git("ls-files", "-z", "--stage").split("\0")[:-1])
        blobs = {path: meta for meta, _, path in rows}
        inputs = [f"{path}\0{blobs[path]}" for path in input_paths(self._command, sorted(blobs))]
        return hashlib.sha256("\0".join((self._command, *inputs)).encode(errors="surrogateescape")).hexdigest()[:32]

    def _remember(self, key: str, names: Iterable[str]) -> None:
        products = [name for name in names if os.path.lexists(self._here / name)]
        for name in products:
            _remove_caches(self._here / name)
        self._products = {name: state_of(f"{self._here}/{name}") for name in products}
        self._key, self._in_use = key, True

    def _reuse(self) -> bool:
        """Move the products into the checkout, if they are unchanged and their paths do not exist there."""
        for name, state in self._products.items():
            parent = os.path.realpath((self._here / name).parent)
            is_free = Path(parent).is_relative_to(self._here) and not os.path.lexists(self._here / name)
            if not is_free or state_of(f"{self._kept}/{name}") != state:
                return False
        self._move(self._kept, self._here)
        self._in_use = True
        return True

    def _move(self, source: Path, target: Path) -> None:
        """Move the products between folders, without what tools cached in them; never through a link."""
        for name in self._products:
            product = source / name
            if os.path.lexists(product) and Path(os.path.realpath(product.parent)) == product.parent:
                _remove_caches(product)
                (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                product.rename(target / name)


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
    """Return the error with the end of the output."""
    lines = [line.rstrip() for line in tail_of(done.output).splitlines() if line.strip()]
    end = "".join(f"\n  {line}" for line in lines[-_LINES:])
    why = done.error or f"exit {done.exit_code}"
    return EnvironmentFailed(
        f"[workspace] setup failed in the fresh checkout ({why}): {command}{end}",
        "correct it in the goal file; it runs in a checkout without ignored files, as after `git clone`",
        permanent=True,
    )


def _remove_caches(product: Path) -> None:
    if product.is_dir() and not product.is_symlink():
        for cache in _CACHES:
            remove(product / cache)


def editable_installs(commands: Iterable[str], env: Mapping[str, str], checkout: Path, workspace: Path) -> list[Path]:
    """Return the files that make Python, started by one of the commands in a checkout, import from the live workspace.

    They are in the environments whose programs a command line names. A script that starts Python by an absolute path is
    not followed.
    """
    prefixes = set[Path]()
    for command in commands:
        programs = [one for one in started_programs(command)[0] if one.words and not one.module]
        if not any(one.name in PROJECT_RUNNERS for one in programs):
            names = (str(checkout / one.words[0]) if "/" in one.words[0] else one.words[0] for one in programs)
            found = (shutil.which(name, path=env.get("PATH", os.defpath)) for name in names)
            prefixes |= {Path(program).parent.parent for program in found if program and _may_import(Path(program))}
    leads = re.compile(rf"^(?!#).*{re.escape(str(workspace))}(?![\w.-])", re.MULTILINE)
    return sorted(
        file
        for prefix in prefixes
        for pattern in ("*.pth", "*.egg-link", "*editable*.py")
        for file in prefix.glob(f"lib*/python*/*-packages/{pattern}")
        if leads.search(file.read_text(encoding="utf-8", errors="replace"))
    )


def _may_import(program: Path) -> bool:
    """Return whether a program is Python or a script; others, such as ruff, import nothing."""
    try:
        with program.open("rb") as file:
            return "py" in program.name or file.read(2) == b"#!"
    except OSError:
        return True
