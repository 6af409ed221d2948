"""A goal file's bytes. Owns reading and parsing them, and saying what is wrong with a file as such."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalrunner.errors import GoalFileError, Problem
from goalrunner.goalfile.keys import SHORT_TABLES
from goalrunner.goalfile.positions import LongKeyError, line_starts_of, locate, place_of
from goalrunner.goalfile.resolving import NOTHING, resolve_goal
from goalrunner.goalfile.wording import LONGEST_PATH, listed, nearest, quoted
from goalrunner.model.goal import Goal

LARGEST = 1_000_000
"""Bytes that a goal file may have."""

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_PART = r"'([^']*)'"
_TABLE = re.compile(rf"\((?:{_PART}(?:, |,)?)+\)")
_AT_END = re.compile(r" \(at end of document\)$")


def load_goal(
    path: Path | str,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    *,
    runnable: bool = True,
) -> Goal:
    """The goal that a file holds, with options and environment laid over it; see `resolve_goal`.

    Raises GoalFileError with every problem at once, also where the file is missing, unreadable or no TOML.
    """
    path, name = Path(path), str(path)
    text = _decode(_read(path), name)
    return load_goal_text(text, name, overrides, environ, base=path.absolute().parent, runnable=runnable)


def load_goal_text(
    text: str,
    name: str,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    *,
    base: Path | None = None,
    runnable: bool = True,
) -> Goal:
    """The same for a text; `name` stands for the file in messages, relative paths start from `base`."""
    text = text.replace("\r\n", "\n")
    try:
        positions = locate(text)
        table = tomllib.loads(text)
    except LongKeyError as error:
        raise _refusal(name, f"a key has {error}", error.place) from error
    except tomllib.TOMLDecodeError as error:
        raise _bad_toml(error, text, name) from error
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else "a number has too many digits"
        raise _refusal(name, f"is no valid TOML: {why}") from error
    return resolve_goal(table, overrides, environ, base, positions=positions, name=name, runnable=runnable)


def _read(path: Path) -> bytes:
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise _refusal(name, f"no such file{_near_files(path)}") from error
    except IsADirectoryError as error:
        raise _refusal(name, f"is a folder{_files_in(path)}") from error
    except PermissionError as error:
        raise _refusal(name, "may not be read: permission denied") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _refusal(name, f"cannot be read: {why}") from error
    if len(data) > LARGEST:
        raise _refusal(name, "is larger than 1 MB; a goal file is a few lines of TOML")
    return data


def _near_files(path: Path) -> str:
    """Of a path that is no file: the goal file beside it with the nearest name, else all of them."""
    near = nearest(path.name, _goal_files(path.parent))
    if near:
        return f"; did you mean {quoted(str(path.parent / near), LONGEST_PATH)}?"
    return _files_in(path.parent) or '; write one, or give --objective "..."'


def _files_in(folder: Path) -> str:
    names = _goal_files(folder)
    return f"; goal files may be {listed(names[:5])} in {folder}" if names else ""


def _goal_files(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".toml")
    except OSError:
        return []


def _decode(data: bytes, name: str) -> str:
    """The text; a byte order mark before it is accepted."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _refusal(name, "is UTF-16, not UTF-8; save it as UTF-8")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        place = place_of(line_starts_of(good), len(good))
        byte = data[error.start]
        raise _refusal(
            name, f"byte 0x{byte:02x} at offset {error.start} is not UTF-8; save the file as UTF-8", place
        ) from error
    if "\0" in text:
        offset = text.index("\0")
        place = place_of(line_starts_of(text), offset)
        raise _refusal(name, "a NUL byte stands here; this is no text file", place)
    return text


def _bad_toml(error: tomllib.TOMLDecodeError, text: str, name: str) -> GoalFileError:
    message = str(error)
    starts = line_starts_of(text)
    if found := _AT_LINE.search(message):
        place = (int(found[1]), int(found[2]))
        message = message[: found.start()]
    else:
        place = place_of(starts, len(text.rstrip()))
        message = _AT_END.sub(", at the end of the file", message)
    reason = f"{message[:1].lower()}{message[1:]}" if message[1:2].islower() else message
    return _both_forms(text, place[0], name) or _refusal(name, f"not valid TOML: {_TABLE.sub(_header, reason)}", place)


def _header(table: re.Match[str]) -> str:
    """A table as its header is written, where the parser shows it as a tuple: ('a', 'b')."""
    return f"[{'.'.join(re.findall(_PART, table[0]))}]"


def _both_forms(text: str, line: int, name: str) -> GoalFileError | None:
    """A table beside its own short form, which TOML already refuses, said in words that help."""
    header = re.match(r"\s*\[\s*(agent|judge)\s*[.\]]", text.split("\n")[line - 1])
    if header is None or not re.search(rf"(?m)^[ \t]*{header[1]}[ \t]*=", text):
        return None
    table, key = header[1], SHORT_TABLES[header[1]]
    message = f'"{table}" stands above as a short form as well; write it as {key} = "..." in [{table}]'
    return _refusal(name, message, (line, header.start(1) + 1))


def _refusal(name: str, message: str, place: tuple[int, int] = (0, 0)) -> GoalFileError:
    return GoalFileError(name, (Problem(message=message, line=place[0], column=place[1]),))
