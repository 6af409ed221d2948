"""Programs that start other programs (`env`, `sudo`, `xargs`), and their options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goalrunner.shell.words import Word


@dataclass(frozen=True)
class Wrapper:
    """How the command in a program's arguments is found."""

    valued: frozenset[str]
    """Options that take a value."""
    operands: int = 0
    """Words of the program's own before the command."""
    behind: tuple[tuple[str, ...], ...] = ()
    """Subcommands, one of which must be first; empty: none is needed."""
    scripts: frozenset[str] = frozenset()
    """Options whose value is a line for a shell."""
    describes: frozenset[str] = frozenset()
    """Options with which no command is started."""
    only: frozenset[str] = frozenset()
    """The programs that are started; empty: all."""
    direct: frozenset[str] = frozenset()
    """Programs that need no subcommand."""
    line: bool = False
    """Whether the arguments are joined to a line for a shell."""
    assigns: bool = False
    """Whether assignments may be in front of the command."""
    clean: bool = False
    """Whether the command gets an environment of its own."""
    repeats: bool = False
    """Whether the command runs once for each input, and so perhaps never."""


def _wrapper(
    valued: str = "",
    operands: int = 0,
    *,
    behind: str = "",
    scripts: str = "",
    describes: str = "",
    only: str = "",
    direct: str = "",
    **more: bool,
) -> Wrapper:
    return Wrapper(
        frozenset((*valued.split(), *scripts.split())),
        operands,
        tuple(tuple(name.split()) for name in behind.split(",") if name),
        frozenset(scripts.split()),
        frozenset(describes.split()),
        frozenset(only.split()),
        frozenset(direct.split()),
        **more,
    )


_UV = (
    "-p --python --with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group --package"
    " --project --directory --env-file --index --default-index -i --index-url --extra-index-url -f --find-links -C"
    " --config-file --cache-dir --color -w -m --refresh-package --upgrade-package -P --prerelease --resolution --from"
)
_SUDO = (
    "-u --user -g --group -C --close-from -D --chdir -h --host -p --prompt -r --role -t --type -T --command-timeout"
    " -U --other-user -R --chroot"
)
_TIMEOUT = "-k --kill-after -s --signal"
_CONDA = "-n --name -p --prefix --cwd"

WRAPPERS: dict[str, Wrapper] = {
    "env": _wrapper("-u --unset -C --chdir -S --split-string", assigns=True),
    "exec": _wrapper("-a"),
    "command": _wrapper(describes="-v -V"),
    "builtin": _wrapper(),
    "coproc": _wrapper(),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "caffeinate": _wrapper("-t -w"),
    "unbuffer": _wrapper(),
    "fakeroot": _wrapper("-l --lib --faked -s -i -b"),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
    "time": _wrapper("-o -f --output --format"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n -p -P -u --class --classdata --pid --pgid --uid"),
    "chrt": _wrapper("-T -P -D -p", 1),
    "taskset": _wrapper("-p", 1),
    "numactl": _wrapper("-i -N -m -C -l -p -P --interleave --cpunodebind --physcpubind --membind --preferred"),
    "setpriv": _wrapper("--ambient-caps --inh-caps --bounding-set --reuid --regid --groups --securebits --pdeathsig"),
    "unshare": _wrapper("-S -G -R -w --setuid --setgid --root --wd --map-user --map-group --propagation"),
    "nsenter": _wrapper("-t -S -G --target --setuid --setgid"),
    "chroot": _wrapper("--userspec --groups", 1),
    "systemd-run": _wrapper(
        "-p -u -M -H -E -t --property --unit --slice --description --machine --host --setenv --uid --gid"
    ),
    "strace": _wrapper("-e -o -s -p -u -E -a -b -I -O -P -S -X"),
    "ltrace": _wrapper("-e -o -s -p -u -a -A -D -F -l -n -w -x"),
    "torsocks": _wrapper("-a -P -u -p"),
    "proxychains": _wrapper("-f"),
    "proxychains4": _wrapper("-f"),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "timeout": _wrapper(_TIMEOUT, 1),
    "gtimeout": _wrapper(_TIMEOUT, 1),
    "xvfb-run": _wrapper("-e -f -n -p -s -w --auth-file --error-file --server-num --server-args --wait"),
    "sudo": _wrapper(_SUDO, assigns=True, clean=True),
    "doas": _wrapper("-u -C -a", clean=True),
    "pkexec": _wrapper("--user", clean=True),
    "runuser": _wrapper(
        "-u --user -g --group -G --supp-group -s --shell -w --whitelist-environment", scripts="-c --command", clean=True
    ),
    "su": _wrapper(
        "-g --group -G --supp-group -s --shell -w", 99, scripts="-c --command --session-command", clean=True
    ),
    "flock": _wrapper("-w --wait --timeout -E --conflict-exit-code", 1, scripts="-c --command"),
    "script": _wrapper(
        "-E -I -O -B -T -m -o --echo --log-in --log-out --log-io --logging-format", 99, scripts="-c --command"
    ),
    "watch": _wrapper("-n --interval -q --equexit", line=True, repeats=True),
    "parallel": _wrapper(
        "-j --jobs -a --arg-file -N -n -L -I -d --delimiter -S --sshlogin --joblog --results --timeout --retries --colsep -C",
        line=True,
        repeats=True,
    ),
    "xargs": _wrapper(
        "-a -d -E -I -J -L -n -P -R -S -s --arg-file --delimiter --max-args --max-lines --max-procs --max-chars",
        repeats=True,
    ),
    "uv": _wrapper(_UV, behind="run,tool run"),
    "uvx": _wrapper(_UV),
    "poetry": _wrapper("-C --directory -P --project", behind="run"),
    "pdm": _wrapper("-p --project", behind="run"),
    "hatch": _wrapper("-e --env", behind="run"),
    "rye": _wrapper(behind="run"),
    "pipenv": _wrapper(behind="run"),
    "pixi": _wrapper("-e --environment --manifest-path", behind="run"),
    "conda": _wrapper(_CONDA, behind="run"),
    "mamba": _wrapper(_CONDA, behind="run"),
    "micromamba": _wrapper(_CONDA, behind="run"),
    "pipx": _wrapper("--spec --python", behind="run"),
    "npx": _wrapper("-p --package -w --workspace", scripts="-c --call"),
    "bunx": _wrapper(),
    "pnpx": _wrapper(),
    "npm": _wrapper("-p --package -w --workspace --prefix -C", behind="exec,x", scripts="-c --call"),
    "pnpm": _wrapper("-C --dir -F --filter", behind="exec,dlx", direct="jest vitest"),
    "yarn": _wrapper("--cwd", behind="exec,dlx", direct="jest vitest"),
    "bun": _wrapper(behind="x", direct="jest vitest"),
    "node": _wrapper("-r --require --import --loader", only="jest jest.js vitest vitest.mjs"),
}


_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ANY = Word("$@", "", "")
"""Arguments that are only known when the command runs."""

_Words = tuple[Word, ...]
Given = list[tuple[str, Word]]
"""Options with their values."""


def options(words: _Words, valued: frozenset[str]) -> tuple[int, Given]:
    """Return where the operands of a command begin, and its options with their values.

    `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and `-nu bob` are understood, and long options may be shortened.
    """
    at = 1
    found: Given = []
    empty = Word("")
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1, found
        if not word.startswith("-") or word == "-":
            break
        following = words[at + 1] if at + 1 < len(words) else empty
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = next((full for full in sorted(valued) if full.startswith(name)), name)
        if name in valued and not equals:
            found.append((name, following))
            at += 1
        elif name.startswith("--"):
            found.append((name, Word(value)))
        else:
            for position, letter in enumerate(word[1:], 2):
                if f"-{letter}" in valued:
                    attached = word[position:]
                    found.append((f"-{letter}", Word(attached) if attached else following))
                    at += not attached
                    break
                found.append((f"-{letter}", empty))
        at += 1
    return min(at, len(words)), found


def command_part(words: _Words, wrapper: Wrapper) -> _Words:
    """Return the words of a wrapper from its subcommand on; none if it has another subcommand."""
    if not wrapper.behind:
        return words
    rest = words[options(words, wrapper.valued)[0] :]
    for names in wrapper.behind:
        if rest[: len(names)] == names:
            return rest[len(names) - 1 :]
    # `yarn jest` is short for `yarn exec jest`.
    return words if rest and rest[0] in wrapper.direct else ()


def line_option(words: _Words, at: int, given: Given, wrapper: Wrapper) -> str | None:
    """Return the line for a shell among the options of a wrapper, also behind its operands: `su bob -c LINE`."""
    values = [value for name, value in given if name in wrapper.scripts]
    rest = words[at:]
    later = next((where for where, word in enumerate(rest) if word in wrapper.scripts), len(rest))
    if later <= wrapper.operands:
        values += rest[later + 1 : later + 2]
    return values[0] if values else None


def with_inputs(name: str, words: _Words, given: Given) -> _Words:
    """Return the words of a command with those that are read from the input of `xargs` or `parallel`."""
    placeholders = [str(value) for option, value in given if option in ("-I", "-J", "--replace")]
    if any(option in ("-i", "--replace") for option, _ in given) or name == "parallel":
        placeholders.append("{}")
    if name == "parallel":
        words = words[: next((at for at, word in enumerate(words) if word.startswith(":::")), len(words))]
    replaced = words
    for placeholder in placeholders:
        replaced = tuple(word.replaced(placeholder) for word in replaced)
    if not words:
        return ()
    return replaced if replaced != words or (placeholders and name == "xargs") else (*words, _ANY)


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
