"""What is known of other programs: the one table that the readers of command lines, reports and projects look into."""

from __future__ import annotations

from dataclasses import dataclass

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "rbash"})


@dataclass(frozen=True)
class Wrapper:
    """How the command in the arguments of a program is found. Texts are lists of words."""

    valued: str = ""
    """Options that take a value."""
    operands: int = 0
    """Words of the program's own before the command."""
    behind: str = ""
    """Subcommands, with commas between them, one of which must be first; empty: none is needed."""
    clean: str = ""
    """Options with which the command gets an environment of its own; `always`: without any."""


_UV = """
    -p --python --with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group --package
    --project --directory --env-file --index --default-index -i --index-url --extra-index-url -f --find-links -C
    --config-file --cache-dir --color -w -m --refresh-package --upgrade-package -P --prerelease --resolution --from
"""
_SUDO = """
    -u --user -g --group -C --close-from -D --chdir -h --host -p --prompt -r --role -t --type -T --command-timeout
    -U --other-user -R --chroot
"""
_XARGS = "-a -d -E -I -J -L -n -P -R -S -s --arg-file --delimiter --max-args --max-lines --max-procs --max-chars"
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
    "xvfb-run": Wrapper("-e -f -n -p -s -w --auth-file --error-file --server-num --server-args --wait"),
    "yarn": Wrapper("-C --dir -F --filter --cwd", behind="exec,dlx"),
}

UNREAD_WRAPPERS = frozenset(
    """
    alias caffeinate chroot chrt doas eval fakeroot ionice ltrace nsenter numactl parallel pkexec proxychains
    proxychains4 runuser script setpriv strace su systemd-run taskset torsocks unshare watch
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs that start or rename other programs in ways that are not read."""

SCRIPT_OPTIONS = frozenset({"-c", "--call", "--command", "-S", "--split-string"})
"""Options of wrappers whose value is a shell line."""

PYTHON_VALUED = frozenset({"-m", "-c", "-W", "-X", "--check-hash-based-pycs"})
"""Options of Python that take a value."""

COVERAGE_VALUED = frozenset(
    "-m --source --source-pkgs --omit --include --rcfile --data-file --context --concurrency".split()  # noqa: SIM905
)
"""Options of `coverage run` that take a value."""

WITH_SUBCOMMANDS = frozenset(
    """
    apk apt apt-get aws brew bun bundle cargo composer conda dnf docker gcloud gem gh git glab go helm kubectl mamba npm
    pdm pip pip3 pipx pnpm podman poetry systemctl terraform uv yarn yum
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs whose options may stand before their subcommand: `git -C x push`."""
