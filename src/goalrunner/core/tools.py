"""What is known of other programs, in one table.

Readers of command lines, reports and projects look it up.
"""

from __future__ import annotations

from dataclasses import dataclass

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "rbash"})


@dataclass(frozen=True)
class Runner:
    """A program that runs tests. Texts are lists of words."""

    name: str
    programs: str
    """The names by which it is called."""
    idle: str = ""
    """Options with which it runs no test at all."""
    filters: str = ""
    """Options that select tests."""
    varying: str = ""
    """Options with which the selection of tests depends on what changed or failed
    before."""
    commands: str = ""
    """Subcommands that run tests; empty: it needs none."""
    option: str = ""
    """The option that makes the program a test runner."""
    is_module: bool = False
    """Whether it is only started with `python -m`."""


PYTEST_USAGE, PYTEST_NO_TESTS = 4, 5
"""pytest's exit codes for a usage error, and if no test was selected."""

# With an `idle` option, a runner passes and proves nothing: the call counts as no test.
PYTEST = Runner(
    name="pytest",
    programs="pytest py.test",
    idle=(
        "--collect-only --collectonly --co --version -V -VV --help -h --fixtures "
        "--markers --setup-plan --setup-only"
    ),
    filters="-k -m --deselect --ignore --ignore-glob",
    varying="--testmon --picked --lf --last-failed",
)
UNITTEST = Runner(
    name="unittest", programs="unittest", idle="-h --help", filters="-k", is_module=True
)
JEST = Runner(
    name="jest",
    programs="jest jest.js",
    idle="--listTests --version --showConfig",
    filters=(
        "-o -t --testNamePattern --testPathIgnorePatterns --findRelatedTests "
        "--selectProjects"
    ),
    varying="--onlyChanged --onlyFailures --changedSince --lastCommit",
)
VITEST = Runner(
    name="vitest",
    programs="vitest vitest.mjs",
    idle="list --version",
    filters="-t --testNamePattern --exclude",
    varying="--changed",
)
MOCHA = Runner(
    name="mocha",
    programs="mocha _mocha mocha.js",
    idle="--dry-run --version --help",
    filters="-g --grep -f --fgrep -i --invert",
)
NODE_TEST = Runner(
    name="node --test",
    programs="node",
    filters="--test-name-pattern --test-skip-pattern --test-only",
    option="--test",
)
GO_TEST = Runner(
    name="go test",
    programs="go",
    idle="-list -c -n",
    filters="-run -skip",
    commands="test",
)
CARGO_TEST = Runner(
    name="cargo test",
    programs="cargo",
    idle="--no-run --list",
    filters="--skip",
    commands="test t",
)
TEST_RUNNERS = (PYTEST, UNITTEST, JEST, VITEST, MOCHA, NODE_TEST, GO_TEST, CARGO_TEST)
"""The test runners whose summaries are understood."""

MAKE = frozenset({"make", "gmake"})
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""In the order in which make looks for them."""

PROJECT_FILES = (
    *(
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "package.json",
        "deno.json",
        "go.mod",
        "Cargo.toml",
        *MAKEFILES,
    ),
    *(
        "CMakeLists.txt",
        "meson.build",
        "pom.xml",
        "build.gradle",
        "build.gradle.kts",
        "Gemfile",
        "composer.json",
    ),
    *(
        "mix.exs",
        "Package.swift",
        "pubspec.yaml",
        "build.sbt",
        "stack.yaml",
        "dune-project",
    ),
)
"""Files that stand in the folder of a project, or of a part of one that has its own
packages or targets."""

_JAVASCRIPT = (
    "tsconfig*.json",
    "jsconfig.json",
    "setupTests.*",
    "__mocks__/",
    ".babelrc*",
    "babel.config.*",
    ".npmrc",
    ".yarnrc*",
    ".pnpmfile.*",
)
# A change of one of these can make a red check green, so they count as checks.
CONFIGURATION: dict[str, tuple[str, ...]] = {
    # Pytest loads the plugins of packages in the folder where it starts.
    "pytest": (
        "conftest.py",
        ".coveragerc",
        "tox.ini",
        "**/*.dist-info/entry_points.txt",
        "**/*.egg-info/entry_points.txt",
    ),
    "coverage": (".coveragerc",),
    "nox": ("noxfile.py",),
    "behave": ("environment.py",),
    "invoke": ("tasks.py",),
    "inv": ("tasks.py",),
    "doit": ("dodo.py",),
    **dict.fromkeys(MAKE, MAKEFILES),
    "just": ("justfile", ".justfile"),
    "task": ("Taskfile.*",),
    "rake": ("Rakefile", "*.rake"),
    **dict.fromkeys(
        "node npm npx pnpm yarn bun bunx deno tsx ts-node tap tape ava".split(),
        _JAVASCRIPT,
    ),
    **dict.fromkeys(
        "jest mocha vitest eslint tsc playwright cypress karma".split(), _JAVASCRIPT
    ),
    "vite": ("vite.config.*",),
    "bun": (*_JAVASCRIPT, "bunfig.toml"),
    "vitest": (*_JAVASCRIPT, "vite.config.*"),
    "pyright": ("pyrightconfig.json",),
    "basedpyright": ("pyrightconfig.json", ".basedpyright/"),
    "lint-imports": (".importlinter",),
    "golangci-lint": (".golangci.*",),
    "cargo": (
        ".cargo/",
        ".config/nextest.toml",
        "clippy.toml",
        ".clippy.toml",
        "rustfmt.toml",
        ".rustfmt.toml",
        "rust-toolchain",
        "rust-toolchain.toml",
    ),
    **dict.fromkeys(
        ("gradle", "gradlew"),
        (
            "*.gradle",
            "*.gradle.kts",
            "gradle.properties",
            "buildSrc/",
            "gradle/",
            "detekt*.*",
            "lint-baseline.xml",
        ),
    ),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml", ".mvn/")),
    "dotnet": ("Directory.Build.*", "*.runsettings"),
    **dict.fromkeys(("cmake", "ctest"), ("CMakeLists.txt",)),
    "meson": ("meson.build",),
    "bazel": (".bazelrc",),
    **dict.fromkeys(("dart", "flutter"), ("dart_test.yaml",)),
}
"""The files that configure programs, as patterns of .gitignore, beside those that begin
with the program's name."""

CONFIGURED_BY_NAME = frozenset(
    """
    pytest coverage tox nox hatch behave nose2 jest vitest mocha ava karma nyc c8
    playwright cypress tap deno nx turbo phpunit rspec invoke pre-commit prek lefthook
    lint-staged detekt checkstyle
    """.split()
)
"""Further programs, beside checkers, whose configuration begins with their names:
tox.ini, .nycrc, jest.config.js."""

CHECKERS = frozenset(
    """
    ruff mypy dmypy pyright basedpyright pylint black isort flake8 bandit lint-imports
    ty pyrefly codespell vulture deptry interrogate pydocstyle pycodestyle eslint tsc
    prettier stylelint biome oxlint xo standard jshint golangci-lint gofmt staticcheck
    shellcheck shfmt yamllint markdownlint markdownlint-cli2 hadolint rubocop phpstan
    psalm phpcs ktlint clang-tidy clang-format rustfmt clippy swiftlint sqlfluff typos
    actionlint pre-commit prek
    """.split()
)
"""Linters, formatters and type checkers."""

LEAVE_OUT_IGNORED = frozenset({"ruff", "black", "prettier", "biome", "rg"})
"""Checkers that leave out what git ignores, so that .gitignore configures them."""

# The lock file says which of them a project uses.
PACKAGE_MANAGERS = {
    "pnpm": "pnpm-lock.yaml",
    "yarn": "yarn.lock",
    "bun": "bun.lock",
    "npm": "package-lock.json",
}
"""Programs that run the scripts of package.json, with their lock files; npm works with
those of others as well."""

PYTHON_TOOLS = frozenset(
    """
    ruff mypy pyright flake8 pylint black isort bandit tox nox pytest unittest behave
    build coverage nose2 pip pre_commit sphinx twine uv
    """.split()
)
"""Modules that are started with `python -m` to check or build a project. The agent's
work does not provide them."""

PROJECT_RUNNERS = {
    "uv": "uv.lock",
    "poetry": "poetry.lock",
    "pdm": "pdm.lock",
    "pipenv": "Pipfile.lock",
    "pixi": "pixi.lock",
    "hatch": "",
    "rye": "",
    "tox": "",
    "nox": "",
}
"""Programs that run a command in an environment of the project, wherever PATH leads,
with their lock files."""

PROGRAM_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Folders of a project in which programs are installed."""

DAEMONS = (
    "dmypy",
    "gradle",
    "gradlew",
    "bazel",
    "bazelisk",
    "watchman",
    "docker",
    "docker-compose",
    "podman",
)
"""Programs that do their work in a daemon outside of the check's namespace, which sees
the live workspace."""


@dataclass(frozen=True)
class Wrapper:
    """How the command in the arguments of a program is found.

    Texts are lists of words.
    """

    valued: str = ""
    """Options that take a value."""
    operands: int = 0
    """Words of the program's own before the command."""
    behind: str = ""
    """Subcommands, with commas between them, one of which must be first; empty: none is
    needed."""
    clean: str = ""
    """Options with which the command gets an environment of its own; `always`: without
    any."""
    starts_module: bool = False
    """Whether it starts the Python module that its option -m names."""


# Options with a value have to be known: the value would be read as the command.
_UV = """
    -p --python --with --with-editable --with-requirements --extra --no-extra --group
    --no-group --only-group --package --project --directory --env-file --index
    --default-index -i --index-url --extra-index-url -f --find-links -C --config-file
    --cache-dir --color -w -m --refresh-package --upgrade-package -P --prerelease
    --resolution --from
"""
_SUDO = """
    -u --user -g --group -C --close-from -D --chdir -h --host -p --prompt -r --role -t
    --type -T --command-timeout -U --other-user -R --chroot
"""
_XARGS = (
    "-a -d -E -I -J -L -n -P -R -S -s --arg-file --delimiter --max-args --max-lines "
    "--max-procs --max-chars"
)
_COVERAGE = (
    "-m --source --source-pkgs --omit --include --rcfile --data-file --context "
    "--concurrency"
)
_TIMEOUT = Wrapper("-k --kill-after -s --signal", operands=1)
_CONDA = Wrapper("-n --name -p --prefix --cwd", behind="run")

WRAPPERS: dict[str, Wrapper] = {
    "builtin": Wrapper(),
    "bun": Wrapper(behind="x"),
    "bunx": Wrapper(),
    "busybox": Wrapper(),
    "command": Wrapper(),
    "conda": _CONDA,
    "coproc": Wrapper(),
    "coverage": Wrapper(_COVERAGE, behind="run", starts_module=True),
    "env": Wrapper("-u --unset -C --chdir", clean="-i --ignore-environment -"),
    "exec": Wrapper("-a"),
    "flock": Wrapper("-w --wait --timeout -E --conflict-exit-code", operands=1),
    "gtimeout": _TIMEOUT,
    "hatch": Wrapper("-e --env", behind="run"),
    "mamba": _CONDA,
    "micromamba": _CONDA,
    "nice": Wrapper("-n --adjustment"),
    "node": Wrapper("-r --require --import --loader"),
    "nohup": Wrapper(),
    "npm": Wrapper("-p --package -w --workspace --prefix -C", behind="exec,x"),
    "npx": Wrapper("-p --package -w --workspace"),
    "pdm": Wrapper("-p --project", behind="run"),
    "pipenv": Wrapper(behind="run"),
    "pipx": Wrapper("--spec --python", behind="run"),
    "pixi": Wrapper("-e --environment --manifest-path", behind="run"),
    "pnpm": Wrapper("-C --dir -F --filter --cwd", behind="exec,dlx"),
    "pnpx": Wrapper(),
    "poetry": Wrapper("-C --directory -P --project", behind="run"),
    "python": Wrapper(
        "-m -c -W -X --check-hash-based-pycs", clean="-I -E", starts_module=True
    ),
    "rye": Wrapper(behind="run"),
    "setsid": Wrapper(),
    "stdbuf": Wrapper("-i -o -e --input --output --error"),
    "sudo": Wrapper(_SUDO, clean="always"),
    "time": Wrapper("-o -f --output --format"),
    "timeout": _TIMEOUT,
    "toybox": Wrapper(),
    "unbuffer": Wrapper(),
    "uv": Wrapper(_UV, behind="run,tool run"),
    "uvx": Wrapper(_UV),
    "xargs": Wrapper(_XARGS),
    "xvfb-run": Wrapper(
        "-e -f -n -p -s -w --auth-file --error-file --server-num --server-args --wait"
    ),
    "yarn": Wrapper("-C --dir -F --filter --cwd", behind="exec,dlx"),
}

# A line with one of these is not understood: rules about commands then require
# approval.
UNREAD_WRAPPERS = frozenset(
    """
    alias caffeinate chroot chrt doas eval fakeroot ionice ltrace nsenter numactl
    parallel pkexec proxychains proxychains4 runuser script setpriv strace su
    systemd-run taskset torsocks unshare watch
    """.split()
)
"""Programs that start or rename other programs in ways that are not read."""

SCRIPT_OPTIONS = frozenset({"-c", "--call", "--command", "-S", "--split-string"})
"""Options of wrappers whose value is a shell line."""

GIT_VALUED = frozenset(
    {
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--super-prefix",
    }
)
"""Options of git, before its subcommand, that take a value."""

WITH_SUBCOMMANDS = frozenset(
    """
    apk apt apt-get aws brew bun bundle cargo composer conda dnf docker gcloud gem gh
    git glab go helm kubectl mamba npm pdm pip pip3 pipx pnpm podman poetry systemctl
    terraform uv yarn yum
    """.split()
)
"""Programs whose options may stand before their subcommand: `git -C x push`."""
