"""Types for the fields of a goal, each with the check of its form.

A ValueError of these types holds words that follow the name of the key: `timeout` + `"soon" is not a valid duration; ...`.
"""

from __future__ import annotations

import math
import re
import string
import warnings
from collections.abc import Callable, Mapping
from datetime import date, time
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo

from goalrunner.core.wording import TYPING_ERROR, braced, nearest, quoted, shown

FROM_FILE = {"file": True}
"""The validation context of a goal file. There a value that is given is not empty, and `["word"]` is a command of one word."""

_DEEPEST = 20
"""Levels of tables and lists that a parameter may have."""


class InnerError(ValueError):
    """What is wrong inside of the value that was checked; `path` leads there.

    `reason` follows the name of the key; if it is `whole`, it stands alone. With `key` the key is wrong, not its value.
    """

    def __init__(self, path: tuple[str | int, ...], reason: str, *, key: bool = False, whole: bool = False) -> None:
        super().__init__(reason if whole else f"{'.'.join(map(str, path))} {reason}".lstrip())
        self.path = path
        self.reason = reason
        self.key = key or whole
        self.whole = whole


def from_file(info: ValidationInfo) -> bool:
    """Return whether the value comes from a goal file, an option or the environment."""
    return info.context == FROM_FILE


def _writable(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("contains bytes that are not UTF-8") from error
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; write something, or remove it")
    return text


def _given(text: str, info: ValidationInfo) -> str:
    return _not_blank(text) if text or from_file(info) else text


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{quoted(text)} must be one line without control characters")
    return text


String = Annotated[str, AfterValidator(_writable)]
"""Any text that can be written to a file and handed to a process."""
Text = Annotated[String, AfterValidator(_not_blank), Field(min_length=1)]
"""A string that is not blank."""
Line = Annotated[Text, AfterValidator(_one_line)]
"""A string of one line, without control characters."""
OptionalText = Annotated[String, AfterValidator(_given)]
"""The same as Text; the empty string is the default and stands for no value."""
OptionalLine = Annotated[OptionalText, AfterValidator(_one_line)]
"""The same as Line; the empty string is the default and stands for no value."""

SCRIPTED = "scripted/"
"""Prefix of a model that plays recorded replies; what follows is a file."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _model(name: str) -> str:
    if name != name.strip():
        raise ValueError(f"{quoted(name)} begins or ends with a space; remove it")
    if name == SCRIPTED:
        raise ValueError(f'{quoted(name)} names no file; write "scripted/replies.jsonl"')
    return name


def _inner_folder(path: str) -> str:
    depth = 0
    for part in PurePosixPath(path).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            break
    if path.startswith(("/", "~")) or depth < 0:
        raise ValueError(f"{quoted(path)} leaves the workspace; write a folder relative to it")
    return path


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a compiled regular expression; raise ValueError if it is not valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern, flags)
    except re.error as error:
        where = f" at its character {error.pos + 1}" if error.pos is not None else ""
        raise ValueError(f"is not a valid regular expression: {error.msg}{where}") from error
    except (OverflowError, RecursionError) as error:
        raise ValueError("is not a valid regular expression: it is too large") from error


def _pattern(text: str) -> str:
    try:
        compiled(text, re.MULTILINE)
    except ValueError as error:
        raise ValueError(f"{quoted(text)} {error}") from error
    return text


def _callable(name: str) -> str:
    if not _CALLABLE.fullmatch(name):
        raise ValueError(f'{quoted(name)} is not a Python callable; write "package.module:function"')
    return name


def _environment_name(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("is not a valid name of an environment variable")
    return name


def _key_variable(name: str) -> str:
    """Return the name. A wrong one is not shown: it may be the key itself."""
    if not _VARIABLE.fullmatch(name):
        raise ValueError('must be the name of an environment variable, such as "OPENAI_API_KEY", not the key itself')
    return name


def _address(text: str) -> str:
    if not re.match(r"https?://[^\s/]", text):
        raise ValueError(f'{quoted(text)} is not an address; write "http://..." or "https://..."')
    return text


ModelName = Annotated[OptionalLine, AfterValidator(_model)]
InnerFolder = Annotated[OptionalText, AfterValidator(_inner_folder)]
"""A path relative to the workspace that stays inside it."""
Pattern = Annotated[Text, AfterValidator(_pattern)]
CallableName = Annotated[Text, AfterValidator(_callable)]
KeyVariable = Annotated[Text, AfterValidator(_key_variable)]
"""The name of the environment variable that holds a key."""
Address = Annotated[Line, AfterValidator(_address)]
Environment = dict[Annotated[str, AfterValidator(_environment_name)], String]
"""Environment variables."""


def secret_pattern(entry: str) -> re.Pattern[str] | None:
    """Return the pattern of `/pattern/`, None for anything else; raise ValueError if the pattern is not valid."""
    if len(entry) < 2 or not (entry.startswith("/") and entry.endswith("/")):
        return None
    pattern = compiled(entry[1:-1])
    if pattern.search(""):
        raise ValueError("matches the empty text; write what is to be replaced")
    return pattern


def secret_variable(entry: str) -> str | None:
    """Return the variable that `$NAME` or `${NAME}` stands for; None for anything else."""
    match = re.fullmatch(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", entry)
    return match[1] if match else None


def _secret(entry: str) -> str:
    """Return the entry. A wrong one is not shown: it may be the secret itself."""
    if secret_pattern(entry) is None and secret_variable(entry) is None:
        raise ValueError(
            'must be "$NAME", a variable that holds the secret, or "/pattern/"; do not write the secret itself'
        )
    return entry


Secret = Annotated[Text, AfterValidator(_secret)]
"""What is kept out of a run: `$NAME` or `/pattern/`."""

PLACEHOLDERS = ("feedback", "iteration", "missing", "objective")
"""What a retry message may name in braces."""


def _template(text: str) -> str:
    valid = braced(PLACEHOLDERS)
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:
        raise ValueError(f"has a stray brace; write {{{{ or }}}} for a brace, or one of {valid}") from None
    for _, name, form, conversion in fields:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            word = f"{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}"
            near = nearest(word, PLACEHOLDERS)
            guess = f"; did you mean {{{near}}}?" if near else ";"
            raise ValueError(f"names {{{quoted(word)[1:-1]}}}, which does not exist{guess} valid: {valid}")
    return text


Template = Annotated[Text, AfterValidator(_template)]
"""A retry message with placeholders."""


def known_braces(names: tuple[str, ...]) -> Callable[[str], str]:
    """Return a check that finds misspelt names in braces; other words in braces belong to the command itself."""

    def check(word: str) -> str:
        for name in re.findall(r"\{([A-Za-z_]+)\}", word):
            near = nearest(name, names, TYPING_ERROR)
            if name not in names and near:
                raise ValueError(
                    f"names {{{name}}}, which does not exist; did you mean {{{near}}}? valid: {braced(names)}"
                )
        return word

    return check


OWNED_PARAMETERS: dict[str, str] = {
    "model": 'write model = "..." beside params',
    "api_key": 'write api_key_env = "..." beside params, the name of the variable that holds it',
    **dict.fromkeys(("api_base", "base_url"), 'write api_base = "..." beside params'),
    **dict.fromkeys(
        ("messages", "stream", "stream_options", "tools", "functions", "response_format", "n", "max_retries", "num_retries"),
        "the runner sets it; remove it",
    ),
}  # fmt: skip
"""Arguments of a model call that are not for `params`, and what to do instead."""


def _parameters(table: dict[str, Any]) -> dict[str, Any]:
    for name in table:
        if name in OWNED_PARAMETERS:
            raise InnerError((name,), f"is not for params; {OWNED_PARAMETERS[name]}", key=True)
    _check_parameter(table, ())
    return table


def _check_parameter(value: object, path: tuple[str | int, ...]) -> None:
    why = ""
    match value:
        case Mapping() | list() if len(path) > _DEEPEST:
            why = f"is nested more than {_DEEPEST} levels deep"
        case Mapping():
            for name, item in value.items():
                _check_parameter(item, (*path, name))
        case list():
            for index, item in enumerate(value):
                _check_parameter(item, (*path, index))
        case date() | time():
            why = "must not be a date or time; write it as a string"
        case float() if not math.isfinite(value):
            why = f"must be a finite number, not {shown(value)}"
        case str() if "\0" in value:
            why = "contains a NUL character; remove it"
    if why:
        raise InnerError(path, why)


Parameters = Annotated[dict[str, Any], AfterValidator(_parameters)]
"""A table that is passed on to the model."""
