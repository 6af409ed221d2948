"""Tests, make targets and npm scripts that a validator's own command line selects and that do not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from goalrunner.core.shell_programs import Program, programs
from goalrunner.validators.absent_paths import TestTree, Unmatched, mentions, nearest, writes_tests
from goalrunner.validators.absent_programs import Place, brings_nothing
from goalrunner.validators.runners import Call, calls
from goalrunner.validators.script_text import make_targets, makefile_in, package_scripts, text_of

_NODE = re.compile(r"([\w./-]+\.py)::((?:\w+::)*(\w+))(?:\[.*)?", re.DOTALL)
_NAMES = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(test\w*)", re.MULTILINE | re.IGNORECASE)
_GENERATED = re.compile(
    r"import \*|globals\(\)|setattr\(|^class \w+\((?!(?:\w+\.)?\w*TestCase\)|object\)|\))", re.MULTILINE
)
"""What may bring tests that the text of a file does not name, such as a base class."""
_TARGET = re.compile(r"[A-Za-z][\w-]*")
_DYNAMIC = re.compile(
    r"^\s*-?s?include\b|^[^\t#\n]*[%$][^\n]*:|^\.DEFAULT\b|\$\(eval|\$\(foreach|^[\w./-][^:=\n]*\\$", re.MULTILINE
)
"""What may make targets that the text of a Makefile does not name."""
_MAKE = ("make", "gmake")
_PACKAGE_MANAGERS = ("npm", "pnpm", "yarn", "bun")
_SETTINGS = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_SIMILAR = 0.75
_SIMILAR_TEST = 0.85


def absent_targets(line: str, place: Place, tree: TestTree, goal_text: str) -> tuple[Unmatched, ...]:
    """Return the tests, targets and scripts that a line names and that do not exist.

    One that the goal's text names is what the work is to bring. So may a test be if the goal is to write tests.
    """
    found = [*_tests(line, place, tree)]
    if writes_tests(goal_text):
        found = [replace(item, mistake=False) for item in found]
    for program in programs(line):
        command = program.command
        if program.words and not (program.problem or program.through or command.fallback or command.optional):
            found += [*_target(program, place), *_script(program, place)]
        if not (brings_nothing(program) or program.name in (*_MAKE, *_PACKAGE_MANAGERS)):
            break  # it may write the Makefile
    return tuple(
        replace(item, mistake=item.mistake and not mentions(goal_text, item.word)) for item in dict.fromkeys(found)
    )


def _absent(word: str, what: str, known: list[str], cutoff: float) -> Unmatched:
    # Names that differ in digits alone are different on purpose.
    known = [name for name in known if re.sub(r"\d", "", name) != re.sub(r"\d", "", word)]
    near = nearest(word, known, cutoff)
    return Unmatched(word, f": {what}", near, mistake=bool(near))


def _tests(line: str, place: Place, tree: TestTree) -> Iterator[Unmatched]:
    for call in calls(line):
        if call.runner.name != "pytest" or not call.tests or call.program.problem:
            continue
        named: list[str] = []
        for word in call.arguments:
            path = Path(place.path(call.program, word.partition("::")[0]))
            if path.is_file() and place.holds(str(path)):
                named.append(text := text_of(path))
                found = _NODE.fullmatch(word)
                if found and not (re.search(rf"\b{found[3]}\b", text) or _GENERATED.search(text)):
                    yield _absent(found[3], f"{found[1]} has no {found[3]}", _NAMES.findall(text), _SIMILAR_TEST)
        word = _keyword(call.arguments)
        texts = [*named, *(text_of(tree.workspace / file) for file in (tree.files if word else ()))]
        if word and tree.files and not _may_match(word, call, texts, tree):
            known = [name for text in texts for name in _NAMES.findall(text)]
            yield _absent(word, f"no test matches -k {word}", known, _SIMILAR_TEST)


def _keyword(words: tuple[str, ...]) -> str:
    """Return the value of -k if it is a single name."""
    values = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-k"]
    values += [word[2:].lstrip("=") for word in words if word.startswith("-k") and len(word) > 2]
    return values[-1] if values and re.fullmatch(r"[A-Za-z_]\w*", values[-1]) else ""


def _may_match(word: str, call: Call, texts: list[str], tree: TestTree) -> bool:
    """Return whether a name may match a test: it is in the text or the path of a test file, but for digits."""
    part = re.sub(r"\d+$", "", word).casefold()
    settings = "".join(map(text_of, (tree.workspace / name for name in _SETTINGS)))
    elsewhere = "python_files" in settings or "--doctest" in f"{settings} {' '.join(call.arguments)}"
    named = any(part in text.casefold() for text in (*texts, *tree.files))
    return elsewhere or named or any(map(_GENERATED.search, texts))


def _target(program: Program, place: Place) -> Iterator[Unmatched]:
    """Yield the first target of `make TARGET` that the Makefile does not have; only plain calls are looked at."""
    words = program.words[1:]
    if program.name not in _MAKE or not all(map(_TARGET.fullmatch, words)):
        return
    folder = Path(place.path(program, "."))
    name = makefile_in(folder)
    text = text_of(folder / name) if name else ""
    if not place.holds(str(folder)) or not folder.is_dir() or _DYNAMIC.search(text):
        return
    targets = make_targets(text)
    sources = {path.name.partition(".")[0] for path in folder.iterdir() if path.suffix or path.name in words}
    missing = next((word for word in words if word not in targets and word not in sources), "")
    if missing:
        what = f"{name} has no target {missing}" if name else f"there is no Makefile with a target {missing}"
        yield _absent(missing, what, [*targets], _SIMILAR)


def _script(program: Program, place: Place) -> Iterator[Unmatched]:
    """Yield the script of `npm run NAME` or `npm test` that package.json does not have."""
    words = [str(word) for word in program.words[1:] if word not in ("-s", "--silent")]
    folder = Path(place.path(program, "."))
    if program.name not in _PACKAGE_MANAGERS or not place.holds(str(folder)) or not folder.is_dir():
        return
    if words[:1] in (["run"], ["run-script"]):
        del words[0]
    elif program.name != "npm" or words[:1] != ["test"]:
        return
    name = words[0] if words else ""
    if (
        not re.fullmatch(r"\w[\w:.-]*", name)
        or "--if-present" in words
        or (folder / "node_modules/.bin" / name).exists()
    ):
        return
    scripts = package_scripts(text_of(folder / "package.json"))
    if name not in scripts:
        has = "package.json has no" if (folder / "package.json").exists() else "there is no package.json with a"
        found = _absent(name, f'{has} script "{name}"', [*scripts], _SIMILAR)
        is_short = found.instead and "run" not in program.words  # `npm test`
        yield replace(found, instead=f"run {found.instead}") if is_short else found
