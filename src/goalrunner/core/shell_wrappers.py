"""Programs that start other programs (`env`, `sudo`, `xargs`), and their options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goalrunner.core.shell_words import Word

_Words = tuple[Word, ...]
_Given = list[tuple[str, Word]]
"""Options with their values."""


@dataclass(frozen=True)
class Wrapper:
    """How the command in a program's arguments is found. Texts are lists of words."""

    valued: str = ""
    """Options that take a value, beside `scripts`."""
    operands: int = 0
    """Words of the program's own before the command."""
    behind: str = ""
    """Subcommands, with commas between them, one of which must be first; empty: none is needed."""
    scripts: str = ""
    """Options whose value is a line for a shell."""
    clean: bool = False
    """Whether the command gets an environment of its own."""

    @property
    def options(self) -> frozenset[str]:
        """All options that take a value."""
        return frozenset(f"{self.valued} {self.scripts}".split())


_UV = (
    "-p --python --with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group --package"
    " --project --directory --env-file --index --default-index -i --index-url --extra-index-url -f --find-links -C"
    " --config-file --cache-dir --color -w -m --refresh-package --upgrade-package -P --prerelease --resolution --from"
)
_SUDO = (
    "-u --user -g --group -C --close-from -D --chdir -h --host -p --prompt -r --role -t --type -T --command-timeout"
    " -U --other-user -R --chroot"
)

WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys("builtin coproc nohup setsid unbuffer busybox toybox bunx pnpx".split(), Wrapper()),  # noqa: SIM905
    **dict.fromkeys(("timeout", "gtimeout"), Wrapper("-k --kill-after -s --signal", 1)),
    **dict.fromkeys(("rye", "pipenv"), Wrapper(behind="run")),
    **dict.fromkeys(("conda", "mamba", "micromamba"), Wrapper("-n --name -p --prefix --cwd", behind="run")),
    **dict.fromkeys(("pnpm", "yarn"), Wrapper("-C --dir -F --filter --cwd", behind="exec,dlx")),
    "env": Wrapper("-u --unset -C --chdir -S --split-string"),
    "exec": Wrapper("-a"),
    "command": Wrapper(),
    "time": Wrapper("-o -f --output --format"),
    "nice": Wrapper("-n --adjustment"),
    "stdbuf": Wrapper("-i -o -e --input --output --error"),
    "xvfb-run": Wrapper("-e -f -n -p -s -w --auth-file --error-file --server-num --server-args --wait"),
    "sudo": Wrapper(_SUDO, clean=True),
    "flock": Wrapper("-w --wait --timeout -E --conflict-exit-code", 1, scripts="-c --command"),
    "xargs": Wrapper(
        "-a -d -E -I -J -L -n -P -R -S -s --arg-file --delimiter --max-args --max-lines --max-procs --max-chars"
    ),
    "uv": Wrapper(_UV, behind="run,tool run"),
    "uvx": Wrapper(_UV),
    "poetry": Wrapper("-C --directory -P --project", behind="run"),
    "pdm": Wrapper("-p --project", behind="run"),
    "hatch": Wrapper("-e --env", behind="run"),
    "pixi": Wrapper("-e --environment --manifest-path", behind="run"),
    "pipx": Wrapper("--spec --python", behind="run"),
    "npx": Wrapper("-p --package -w --workspace", scripts="-c --call"),
    "npm": Wrapper("-p --package -w --workspace --prefix -C", behind="exec,x", scripts="-c --call"),
    "bun": Wrapper(behind="x"),
    "node": Wrapper("-r --require --import --loader"),
}
UNREAD = frozenset(
    """
    caffeinate chroot chrt doas fakeroot ionice ltrace nsenter numactl parallel pkexec proxychains proxychains4 runuser
    script setpriv strace su systemd-run taskset torsocks unshare watch
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs that start others in ways that are not read."""

COVERAGE_OPTIONS = frozenset(
    "-m --source --source-pkgs --omit --include --rcfile --data-file --context --concurrency".split()  # noqa: SIM905
)
PYTHON_OPTIONS = frozenset({"-m", "-c", "-W", "-X", "--check-hash-based-pycs"})
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ANY = Word("$@", "", "")
"""Arguments that are only known when the command runs."""


def options(words: _Words, valued: frozenset[str], last: tuple[str, ...] = ()) -> tuple[int, _Given]:
    """Return where the operands of a command begin, and its options with their values. Options of `last` end them.

    `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and `-nu bob` are understood, and long options may be shortened.
    """
    at = 1
    found: _Given = []
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word, following = words[at], words[at + 1] if at + 1 < len(words) else Word("")
        at += 1
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if name.startswith("--"):
            name = next((full for full in sorted(valued) if full.startswith(name)), name)
        if name in valued and not equals:
            found.append((name, following))
            at += 1
        elif name.startswith("--"):
            found.append((name, Word(value)))
        else:
            for position, letter in enumerate(word[1:], 2):
                attached = Word(word[position:])
                found.append((f"-{letter}", (attached or following) if f"-{letter}" in valued else Word("")))
                if f"-{letter}" in valued:
                    at += not attached
                    break
        if found[-1][0] in last:
            break
    return min(at, len(words)), found


def command_part(words: _Words, wrapper: Wrapper) -> _Words:
    """Return the words of a wrapper from its subcommand on; none if it has another subcommand."""
    if not wrapper.behind:
        return words
    rest = words[options(words, wrapper.options)[0] :]
    for names in (tuple(name.split()) for name in wrapper.behind.split(",")):
        if rest[: len(names)] == names:
            return rest[len(names) - 1 :]
    # `yarn jest` is short for `yarn exec jest`.
    return words if rest[:1] in (("jest",), ("vitest",)) else ()


def with_inputs(words: _Words, given: _Given) -> _Words:
    """Return the words of a command with those that `xargs` reads from its input."""
    placeholders = [str(value) or "{}" for name, value in given if name in ("-I", "-J", "-i", "--replace")]
    if not words or not placeholders:
        return (*words, _ANY) if words else ()
    for placeholder in placeholders:
        words = tuple(word.replaced(placeholder) for word in words)
    return words


def executed(words: _Words) -> Iterator[_Words]:
    """Yield the commands of `find -exec`. A name that is found begins with where it was looked for."""
    roots = [word for word in words[1:2] if not word.startswith("-")] or [Word(".")]
    only = len(words) < 3 or words[2].startswith("-") or words[1].startswith("-")
    at = 1
    while at < len(words):
        at += 1
        if words[at - 1] in _EXECUTING:
            end = next((end for end in range(at, len(words)) if words[end] in (";", "+")), len(words))
            head = roots[0].head if only else ""
            yield tuple(Word("$@", head, "") if word == "{}" else word.replaced("{}") for word in words[at:end])
            at = end
