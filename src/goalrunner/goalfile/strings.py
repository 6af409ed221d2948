"""Readers of strings with a form of their own: models, folders, patterns, templates."""

from __future__ import annotations

import re
import shlex
import string as _string
import warnings
from pathlib import Path, PurePosixPath

from goalrunner.goalfile.problems import SURE, Spot, nearest, quoted
from goalrunner.goalfile.readers import WRONG, each, line, string, text
from goalrunner.records.redaction import check_extra

SCRIPTED = "scripted/"
"""Prefix of a model that plays recorded replies; what follows is a file."""

PLACEHOLDERS = ("feedback", "iteration", "missing", "objective")
"""What a retry message may name in braces."""

COMMAND_PLACEHOLDERS = ("prompt", "prompt_file", "workspace")
"""What the command of an external agent may name in braces."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def model(value: object, spot: Spot) -> object:
    """A model's name; the file of a `scripted/` one becomes absolute, from the folder of the source."""
    read = line(value, spot)
    if not isinstance(read, str):
        return WRONG
    if read != read.strip():
        spot.wrong(f"{quoted(read)} begins or ends with a space; remove it")
        return WRONG
    if not read.startswith(SCRIPTED):
        return read
    file = read.removeprefix(SCRIPTED)
    if not file:
        spot.wrong(f'{quoted(read)} names no file; write "scripted/replies.jsonl"')
        return WRONG
    absolute = _absolute(file, spot)
    return WRONG if absolute is None else f"{SCRIPTED}{absolute}"


def folder(value: object, spot: Spot) -> object:
    """A folder's path, made absolute from the folder of the source. Whether it is there is asked later."""
    read = text(value, spot)
    if not isinstance(read, str):
        return WRONG
    absolute = _absolute(read, spot)
    return WRONG if absolute is None else str(absolute)


def inner_folder(value: object, spot: Spot) -> object:
    """A path relative to the workspace that stays inside it."""
    read = text(value, spot)
    if not isinstance(read, str):
        return WRONG
    path = PurePosixPath(read)
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            break
    if path.is_absolute() or depth < 0 or read.startswith("~"):
        spot.wrong(f"{quoted(read)} leaves the workspace; write a folder relative to it")
        return WRONG
    return read


def pattern(value: object, spot: Spot) -> object:
    """A regular expression."""
    read = text(value, spot)
    if not isinstance(read, str):
        return WRONG
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(read, re.MULTILINE)
    except re.error as error:
        where = f" at its character {error.pos + 1}" if error.pos is not None else ""
        spot.wrong(f"{quoted(read)} is no regular expression: {error.msg}{where}")
    except (OverflowError, RecursionError):
        spot.wrong(f"{quoted(read)} is no regular expression that can be run: it is too large")
    else:
        return read
    return WRONG


def template(value: object, spot: Spot) -> object:
    """The retry message, with the placeholders it may name."""
    read = text(value, spot)
    if not isinstance(read, str):
        return WRONG
    valid = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    try:
        fields = list(_string.Formatter().parse(read))
    except ValueError:
        spot.wrong(f"has a stray brace; write {{{{ or }}}} for a brace, or one of {valid}")
        return WRONG
    unknown = []
    for _, name, form, conversion in fields:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            unknown.append(f"{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}")
    for word in dict.fromkeys(unknown):
        near = nearest(word, PLACEHOLDERS)
        guess = f"; did you mean {{{near}}}?" if near and near != word else ";"
        spot.wrong(f"names {{{quoted(word)[1:-1]}}}, which does not exist{guess} valid: {valid}")
    return WRONG if unknown else read


def callable_name(value: object, spot: Spot) -> object:
    """A Python callable, `package.module:function`."""
    read = text(value, spot)
    if isinstance(read, str) and not _CALLABLE.fullmatch(read):
        spot.wrong(f'{quoted(read)} is no callable; write "package.module:function"')
        return WRONG
    return read


def variable_name(value: object, spot: Spot) -> object:
    """The name of an environment variable. A wrong one is not shown: it may be the key itself."""
    read = text(value, spot)
    if isinstance(read, str) and not VARIABLE.fullmatch(read):
        spot.wrong('must be the name of an environment variable, such as "OPENAI_API_KEY", not the key itself')
        return WRONG
    return read


def secret(value: object, spot: Spot) -> object:
    """What is to be kept out of a run: `$NAME` or `/pattern/`. A wrong one is not shown: it may be the secret itself."""
    read = text(value, spot)
    if isinstance(read, str):
        try:
            check_extra(read)
        except ValueError as error:
            spot.wrong(str(error))
            return WRONG
    return read


def address(value: object, spot: Spot) -> object:
    """The address of a model's server."""
    read = line(value, spot)
    if isinstance(read, str) and not re.match(r"https?://[^\s/]", read):
        spot.wrong(f'{quoted(read)} is no address; write "http://..." or "https://..."')
        return WRONG
    return read


def command(value: object, spot: Spot) -> object:
    """The command of an external agent: a line for sh -c, which is kept as one word, or a list of words."""
    if isinstance(value, str):
        read = text(value, spot)
        words = [read]
    else:
        found = each(string)(value, spot)
        words = found if isinstance(found, list) else [found]
        if not words or (isinstance(words[0], str) and not words[0].strip()):
            spot.wrong('is empty; write a command line, or a list of words: ["my-agent", "--json"]')
            return WRONG
        if len(words) == 1 and isinstance(words[0], str):
            words = [shlex.quote(words[0])]
    for index, word in enumerate(words):
        _check_braces(word, spot if isinstance(value, str) else spot.item(index))
    return WRONG if WRONG in words else words


def _check_braces(word: object, spot: Spot) -> None:
    """A word in braces that is nearly one of those which a round puts in is a slip; any other is the command's own."""
    for name in re.findall(r"\{([A-Za-z_]+)\}", word) if isinstance(word, str) else ():
        near = nearest(name, COMMAND_PLACEHOLDERS, SURE)
        if name not in COMMAND_PLACEHOLDERS and near:
            valid = ", ".join(f"{{{known}}}" for known in COMMAND_PLACEHOLDERS)
            spot.wrong(f"names {{{name}}}, which does not exist; did you mean {{{near}}}? valid: {valid}")


def _absolute(written: str, spot: Spot) -> Path | None:
    try:
        return (spot.source.base / Path(written).expanduser()).resolve()
    except (OSError, RuntimeError) as error:
        spot.wrong(f"{quoted(written)} cannot be found: {error}")
        return None
