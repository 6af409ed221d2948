"""What the result of a `setup` command depends on. Owns the tables; a command that is not known depends on everything."""

from __future__ import annotations

import re
from collections.abc import Iterable

from goalrunner.workspace.patterns import Patterns

MANIFESTS = (
    "pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "requirements*.txt", "requirements*.in", "constraints*.txt",
    "requirements/", "uv.lock", "uv.toml", "poetry.lock", "pdm.lock", "pylock.toml", "pylock.*.toml", "Pipfile",
    "Pipfile.lock", ".python-version", "environment.yml", "pixi.toml", "pixi.lock",
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml",
    "bun.lock", "bun.lockb", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".node-version", ".nvmrc",
    "go.mod", "go.sum", "go.work", "go.work.sum", "Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml",
    "Gemfile", "Gemfile.lock", "composer.json", "composer.lock",
    # What is compiled while it is installed.
    "*.c", "*.cc", "*.cpp", "*.cxx", "*.h", "*.hpp", "*.pyx", "*.pxd", "*.rs", "*.f", "*.f90", "*.m", "*.mm",
    "CMakeLists.txt", "*.cmake", "meson.build", "meson.options", "binding.gyp", "build.py", "hatch_build.py",
)  # fmt: skip
"""Files that say what is to be installed, and sources that are compiled while it is."""

_KNOWN = r"""\s*(?:
        uv\s+sync | poetry\s+install | pdm\s+(?:install|sync) | pipenv\s+(?:install|sync)
      | (?:uv\s+)?pip3?\s+install\s+(?:-\S+\s+)*-e\s+\.(?:\[[\w,\s-]*\])?
      | (?:uv\s+)?pip3?\s+install\s+-r\s+[\w./-]+
      | npm\s+(?:ci|install|i) | pnpm\s+(?:install|i) | yarn(?:\s+install)? | bun\s+install
      | go\s+mod\s+download | cargo\s+fetch | bundle\s+install
    )(?:\s+--?[\w-]+(?:=[\w.,-]+)?)*\s*"""


def input_paths(setup: str, paths: Iterable[str]) -> list[str]:
    """The paths, of all that a checkout holds, that decide what `setup` gives.

    A command that is known to install by its manifests alone depends on these; any other (`pip install .` copies the
    code, `make deps` may do anything) on every file.
    """
    if not re.fullmatch(_KNOWN, setup, re.VERBOSE):
        return list(paths)
    spec = Patterns(MANIFESTS)
    return [path for path in paths if spec.match(path)]
