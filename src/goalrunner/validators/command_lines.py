"""Faults of a validator's command line, found before it runs: syntax errors, missing programs, hidden exit codes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.shell_programs import SHELLS, Program, programs
from goalrunner.core.shell_syntax import Lost
from goalrunner.system.launcher import SHELL
from goalrunner.validators.runners import calls
from goalrunner.validators.spec_validator import Place

_PLAIN = re.compile(r"[\w.+@%,:/-]+")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_BUILTINS = frozenset(
    """
    : [ [[ bg break cd command continue declare echo exec exit export false fc fg getopts jobs kill let local popd printf
    pushd pwd read readonly return set shift shopt test time times trap true type typeset ulimit umask unset wait
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Commands of the shell itself that make no program available."""
_LOADING = frozenset({".", "source", "eval", "alias", "builtin", "hash"})
"""Commands after which the available programs are unknown."""
_TRANSPARENT = frozenset("env exec command nohup nice timeout sh bash dash coverage".split())  # noqa: SIM905
"""Programs that look up what they start on the same PATH as the shell."""
_LOCAL = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Folders of a workspace in which programs are installed."""
_PARSE_TIMEOUT = 10.0


def _path(place: Place) -> str:
    return place.env.get("PATH", os.defpath)


def _may_get_programs(place: Place) -> bool:
    """Return whether the work may put a program into a folder of PATH, rather than install a package there."""
    entries = (Path(os.path.normpath(place.folder / entry)) for entry in _path(place).split(os.pathsep) if entry)
    own = (entry for entry in entries if entry.is_relative_to(place.workspace))
    return any(folder.name != ".bin" and not (folder.parent / "pyvenv.cfg").exists() for folder in own)


def syntax_error(line: str) -> str:
    """Return the shell's error for a line that it cannot parse; empty if it can. The line is not executed."""
    argv = [SHELL, "-n", "-c", line]
    try:
        done = subprocess.run(
            argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PARSE_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    message = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return re.sub(r"^\S*sh: (?:-c: )?(?:line )?\d+: ", "", message) if done.returncode else ""


def missing_program(line: str, place: Place) -> tuple[str, str] | None:
    """Return that the first program of a line is not on PATH, and a hint; None if it is, or if that is not certain."""
    for program in programs(line):
        command = program.command
        is_certain = not (command.fallback or command.optional) and (command.lost is None or command.lost.how == "|")
        if not is_certain or _is_unknown(program):
            return None
        if program.name not in _BUILTINS:
            return next(missing_words(program, place), None)
    return None


def _is_unknown(program: Program) -> bool:
    """Return whether it is unknown what a program runs, or which programs are available after it."""
    sets_path = any("PATH=" in word for word in (*program.assignments, *program.command.words[:2]))
    return bool(program.problem) or sets_path or program.name in _LOADING


def missing_words(program: Program, place: Place) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each word of a command that is looked up on PATH and not found."""
    if program.clean or _is_unknown(program):
        return
    is_passed_on = all(name in _TRANSPARENT or _PYTHON.fullmatch(name) for name in program.through)
    words = [word for word in program.command.words[:1] if is_passed_on or word in program.through]
    words += program.words[:1] if is_passed_on and not program.module else ()
    for word in dict.fromkeys(words):
        is_name = _PLAIN.fullmatch(word) and "/" not in word and word not in _BUILTINS
        if is_name and shutil.which(word, path=_path(place)) is None:
            near = _similar_program(word, place)
            if near or not _may_get_programs(place):
                hint = f"did you mean {near}?" if near else f"install {word}, or name another program in the goal file"
                yield f"{word}: not found", hint


def _similar_program(name: str, place: Place) -> str:
    """Return the program that may be meant: one of the workspace's own environment, or one on PATH with a similar name."""
    for folder in _LOCAL:
        if os.access(place.folder / folder / name, os.X_OK):
            return f"{folder}/{name}"
    folders = (Path(entry) for entry in _path(place).split(os.pathsep) if entry)
    return misspelled(name, {path.name for folder in folders if folder.is_dir() for path in folder.iterdir()})


def misspelled(word: str, known: Iterable[str]) -> str:
    """Return a name from which a word of four or more letters differs in one letter, but not in digits alone; else "".

    Affixes of test names (`test_`, `_test`) are not compared.
    """

    def differs_in_one(name: str) -> bool:
        one, other = stem(word), stem(name)
        longest, alike = max(len(one), len(other), 1), SequenceMatcher(None, one, other).ratio()
        return 4 <= longest <= longest * alike + 1 and re.sub(r"\d", "", one) != re.sub(r"\d", "", other)

    return next(filter(differs_in_one, get_close_matches(word, sorted(known), 5, 0.6)), "")


_AROUND = re.compile(r"^tests?_|_tests?(?=\.|$)|\..*")


def stem(path: str) -> str:
    """Return the name of a file without its extension and the affixes of test names."""
    return _AROUND.sub("", Path(path).name)


_SURE = frozenset({"true", ":", "echo", "printf"})
_NO_CHECKS = _SURE | frozenset(
    """
    cd rm mkdir cp mv touch chmod ln export set unset source . trap sleep kill pkill wait read exit test [ [[ (( cat ls
    find git sed awk sort cut tr wc head tail date env which command type seq yes tee
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs that prepare or print rather than check."""
_INDULGENT = {
    "--passWithNoTests": "passes if there is no test",
    "--exit-zero": "always passes",
    "--ignore-errors": "passes even if its commands fail",
    "make -i": "passes even if its commands fail",
}


def weaknesses_of(spec: ValidatorSpec) -> tuple[str, ...]:
    """Return the traps of a validator's command line; none if its output decides, or if it is to fail."""
    decides = spec.run and spec.expect.output is None and not spec.expect.exit_code
    return tuple(dict.fromkeys(_traps(spec.run or ""))) if decides else ()


def _traps(command: str) -> Iterator[str]:
    found = programs(command)
    direct = [call.program for call in calls(command)]
    # One program is given the exit code of another: `code=$?`, `test $? -eq 1`, `exit $?`.
    given = [word for one in found if one.name not in _SURE for word in (*one.words[1:], *one.assignments)]
    used = any("$?" in word or "PIPESTATUS" in word for word in given)
    last = [program for program in found if program.name and program.name not in _NO_CHECKS][-1:]
    for program in (program for program in found if program in direct or program in last):
        for word in program.words[1:]:
            if reason := _INDULGENT.get(word.partition("=")[0]) or _INDULGENT.get(f"{program.name} {word}"):
                yield f"`{word}` of {program.name} {reason}"
        if program.command.lost is not None:
            yield from _of_position(program, program.command.lost, command, used=used)


def _of_position(program: Program, lost: Lost, command: str, *, used: bool) -> Iterator[str]:
    """Yield why a program's exit code is lost, with a line to write instead."""
    inner = programs(lost.instead)
    instead = inner[-1].name if inner else next(iter(lost.instead.split()), lost.instead)
    line = lost.whole if any(name in SHELLS for name in program.through) else command
    match lost.how:
        case "|" if not program.pipefail:
            checked = f"bash -o pipefail -c {shlex.quote(line)}"
            yield f"the exit code of `{lost.whole}` is {instead}'s; write: {checked}"
        case "||" if instead in _SURE or lost.instead == "exit 0":
            checked = lost.whole.removesuffix(f" || {lost.instead}")
            whole = line.replace(lost.whole, checked) if lost.whole in line else checked
            yield f"`{lost.whole}` passes even if {program.name} fails; write: {whole}"
        case ";" if not program.strict and not used:
            yield f"the exit code of `{lost.whole}` is not {program.name}'s; write: set -e; {line}"
        case "&":
            yield f"`{lost.whole}` does not wait for {program.name}; write: {lost.whole.removesuffix(' &')}"
