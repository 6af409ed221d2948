"""By which files a test runner is steered from outside the tests. Owns the table; decides about no path on its own.

The table serves `protect`: what stands in it is, at the proof, as it was at the start. `allow` takes a path out.
Patterns are those of a gitignore file, matched without regard to case.

Two kinds:

- **Settings** are protected wherever they stand: changed, deleted or planted.
- **Shadows** are names that a runner would find before the real thing: a module `pytest.py` beside the tests, an
  executable `pytest` in the workspace. They count only when planted: what a project had at the start is its own work.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True)
class Steering:
    """One row: what is steered, and by which files."""

    steers: str
    patterns: tuple[str, ...]


STEERING: tuple[Steering, ...] = (
    Steering("pytest", ("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")),
    Steering("pytest and other tools", ("pyproject.toml", "tox.ini", "setup.cfg", "noxfile.py", "hatch.toml")),
    # An entry point in metadata that lies on the import path loads a plugin into pytest.
    Steering("pytest's plugins", ("*.egg-info", "*.dist-info")),
    Steering("Python's start", ("sitecustomize.py", "usercustomize.py", "*.pth", "pyvenv.cfg")),
    Steering("coverage", (".coveragerc", ".nycrc", ".nycrc.*", ".c8rc", ".c8rc.*", "nyc.config.*")),
    Steering("make", ("Makefile", "GNUmakefile")),
    # make includes them, direnv, docker and many a runner load them: options of a runner are variables as well.
    # Examples are read by people alone, and a folder of that name is a virtual environment.
    Steering(
        "environments",
        (".env", ".env.*", ".envrc", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", "!.env/"),
    ),
    Steering("just and task", ("justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml")),
    Steering("Node's scripts", ("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml")),
    Steering("jest", ("jest.config.*", "jest.setup.*", "jest.preset.*", "setupTests.*", "__mocks__/")),
    Steering("vitest", ("vitest.config.*", "vitest.workspace.*", "vitest.setup.*", "vite.config.*")),
    Steering("mocha and karma", (".mocharc.*", "karma.conf.*")),
    Steering("Babel and its like", ("babel.config.*", ".babelrc", ".babelrc.*", ".swcrc")),
    Steering("TypeScript", ("tsconfig.json", "tsconfig.*.json")),
    Steering("go test", ("go.mod", "go.work")),
    Steering("cargo test", ("Cargo.toml", "build.rs", ".cargo/config", ".cargo/config.toml", ".config/nextest.toml")),
    Steering("rustup", ("rust-toolchain", "rust-toolchain.toml")),
    Steering(
        "Python's checkers", ("ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", ".flake8", ".pylintrc", "pylintrc")
    ),
    Steering("type checkers and linters", ("pyrightconfig.json", ".golangci.*", "clippy.toml", ".clippy.toml")),
    Steering("JavaScript's checkers", ("eslint.config.*", ".eslintrc", ".eslintrc.*", "biome.json", "biome.jsonc")),
    Steering("prettier", (".prettierrc", ".prettierrc.*", "prettier.config.*")),
    Steering("what tools leave out", (".gitignore", ".ignore", ".eslintignore", ".prettierignore", ".stylelintignore")),
)
"""Settings: one row for each thing that is steered."""

RUNNER_MODULES = frozenset(
    """
    pytest _pytest py pluggy iniconfig exceptiongroup pygments xdist pytest_cov pytest_asyncio pytest_timeout coverage
    hypothesis nose nose2 tox nox behave pip setuptools pkg_resources distutils mypy ruff
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Python modules that are a test runner or come with one."""

STANDARD_MODULES = frozenset(
    """
    unittest doctest abc argparse ast asyncio base64 bdb binascii bz2 codecs codeop collections concurrent contextlib
    contextvars copy copyreg dataclasses datetime dis difflib encodings enum errno faulthandler fnmatch functools
    genericpath gettext glob gzip hashlib importlib inspect io json keyword linecache locale logging lzma math ntpath
    opcode operator os pathlib pdb pkgutil platform posixpath pprint pyexpat re reprlib runpy selectors shlex shutil
    signal site socket ssl stat struct subprocess sysconfig tempfile textwrap threading tokenize traceback types typing
    unicodedata urllib uuid warnings weakref zipfile zipimport zlib zoneinfo
    """.split()  # noqa: SIM905
)
"""Modules of the standard library that runners load before the first test.

Names that a goal may well ask for (`calendar`, `queue`, `statistics`, `random`, `parser`) are left out on purpose.
"""

_ALL_STANDARD = STANDARD_MODULES | {name.casefold() for name in sys.stdlib_module_names}

PROGRAMS = frozenset(
    """
    pytest py.test python python3 unittest coverage tox nox uv poetry pipenv hatch pip node npm npx pnpm yarn bun deno
    jest vitest mocha go cargo rustc make cmake ctest just task sh bash env git
    """.split()  # noqa: SIM905
)
"""Names under which a runner, or what starts one, is looked up on PATH or in `node_modules/.bin`."""

_MODULE = re.compile(r"(?P<name>\w+)(?:/__init__)?(?:\.[\w-]+)*\.(?:py|pyc|so|pyd)")


def shadow(path: str, roots: Container[str], *, executable: bool, scripts: Container[str] = ()) -> str | None:
    """What a new file at `path` stands before ("the module pytest", "the program make"); None: nothing.

    `roots` are the folders that imports start from, "" for the workspace itself. `scripts` are those that stand before
    the standard library for a check's own script: there every name of the library counts.
    """
    folder, _, name = path.rpartition("/")
    if name.casefold() in PROGRAMS and (executable or f"/{folder}".endswith("/node_modules/.bin")):
        return f"the program {name}"
    if name.startswith("__init__."):
        folder, _, package = folder.rpartition("/")
        name = f"{package}/{name}"
    match = _MODULE.fullmatch(name)
    if match is None:
        return None
    module = match["name"].casefold()
    runners = folder in roots and (module in RUNNER_MODULES or module in STANDARD_MODULES)
    return f"the module {module}" if runners or (folder in scripts and module in _ALL_STANDARD) else None
