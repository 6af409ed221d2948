"""Reading TOML files of goals and agents."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from goalrunner.agents.registry import ACP, COMMAND, agent_names, parser_class, user_files
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import GoalFileError, Problem, UsageError
from goalrunner.core.field_types import FROM_FILE
from goalrunner.core.goal import CHAT, RESERVED_AGENTS, SHORT_TABLES
from goalrunner.core.wording import listed, quoted
from goalrunner.goalfile.positions import LongKeyError, Positions, line_starts_of, locate, place_of
from goalrunner.goalfile.problems import Problems, Source, Spot, report
from goalrunner.goalfile.schema import schema_of

LARGEST = 1_000_000
"""Bytes that a goal file may have."""

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_PART = r"'([^']*)'"
_TABLE = re.compile(rf"\((?:{_PART}(?:, |,)?)+\)")
_AT_END = re.compile(r" \(at end of document\)$")


def parse(text: str, name: str) -> tuple[dict[str, Any], Positions]:
    """Return the table of a TOML text and the positions of its keys; `name` is the file's. Raise GoalFileError."""
    text = text.replace("\r\n", "\n")
    try:
        positions = locate(text)
        return tomllib.loads(text), positions
    except LongKeyError as error:
        raise refusal(name, f"a key has {error}", error.place) from error
    except tomllib.TOMLDecodeError as error:
        raise _bad_toml(error, text, name) from error
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else "a number has too many digits"
        raise refusal(name, f"is not valid TOML: {why}") from error


def read_text(path: Path, *, missing: Callable[[], str] = str, folder: Callable[[], str] = str) -> str:
    """Return the text of a file, without a byte order mark. Raise GoalFileError.

    `missing` returns what the message adds if there is no such file, `folder` if it is a folder.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise refusal(name, f"no such file{missing()}") from error
    except IsADirectoryError as error:
        raise refusal(name, f"is a folder{folder()}") from error
    except PermissionError as error:
        raise refusal(name, "cannot be read: permission denied") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refusal(name, f"cannot be read: {why}") from error
    if len(data) > LARGEST:
        raise refusal(name, "is larger than 1 MB; a goal file is a few lines of TOML")
    return _decode(data, name)


def refusal(name: str, message: str, place: tuple[int, int] = (0, 0)) -> GoalFileError:
    """Return the error of a file as a whole."""
    return GoalFileError(name, (Problem(message=message, line=place[0], column=place[1]),))


def _decode(data: bytes, name: str) -> str:
    """Return the text without a byte order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refusal(name, "is UTF-16, not UTF-8; save it as UTF-8")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        place = place_of(line_starts_of(good), len(good))
        byte = data[error.start]
        raise refusal(
            name, f"byte 0x{byte:02x} at offset {error.start} is not UTF-8; save the file as UTF-8", place
        ) from error
    if "\0" in text:
        offset = text.index("\0")
        place = place_of(line_starts_of(text), offset)
        raise refusal(name, "contains a NUL byte; this is not a text file", place)
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
    return _both_forms(text, place[0], name) or refusal(name, f"not valid TOML: {_TABLE.sub(_header, reason)}", place)


def _header(table: re.Match[str]) -> str:
    """Return the header of a table, which the parser shows as a tuple: ('a', 'b')."""
    return f"[{'.'.join(re.findall(_PART, table[0]))}]"


def _both_forms(text: str, line: int, name: str) -> GoalFileError | None:
    """Return the error of a table beside its own short form, which TOML already refuses; None for any other."""
    header = re.match(r"\s*\[\s*(agent|judge)\s*[.\]]", text.split("\n")[line - 1])
    if header is None or not re.search(rf"(?m)^[ \t]*{header[1]}[ \t]*=", text):
        return None
    table, key = header[1], SHORT_TABLES[header[1]]
    message = f'"{table}" is also given as a short form above; write it as {key} = "..." in [{table}]'
    return refusal(name, message, (line, header.start(1) + 1))


@dataclass(frozen=True)
class Known:
    """The agents that a goal may name: its own, those of the user, and the built-in ones."""

    own: Mapping[str, Preset] = field(default_factory=dict)
    """What the goal's `[agents]` holds."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The user's own presets."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those without a preset first."""
        return (*RESERVED_AGENTS, *sorted({*agent_names(), *self.files, *self.own}))

    def preset(self, name: str) -> Preset:
        """Return the preset of that name. Raise GoalFileError for an invalid file of the user's, KeyError for an unknown name."""
        if name in self.own:
            return self.own[name]
        if name in (CHAT, COMMAND, ACP):
            return Preset()
        if name in self.files:
            return read_preset(self.files[name])
        return parser_class(name).preset


def preset_named(name: str, own: Mapping[str, Preset], environ: Mapping[str, str]) -> Preset:
    """Return the preset of that name, for a goal whose `[agents]` are `own`.

    Raise GoalFileError for an invalid file of the user's, and UsageError for an unknown name.
    """
    known = Known(own, user_files(environ))
    try:
        return known.preset(name)
    except KeyError:
        raise UsageError(f"there is no agent {quoted(name)}", f"valid: {listed(known.names)}") from None


def all_presets(own: Mapping[str, Preset], environ: Mapping[str, str]) -> dict[str, Preset]:
    """Return all presets that such a goal may name. Raise GoalFileError for an invalid file of the user's, used or not."""
    known = Known(own, user_files(environ))
    return {name: known.preset(name) for name in known.names if name not in RESERVED_AGENTS}


def read_preset(path: Path) -> Preset:
    """Return the preset in a file of the user's. Raise GoalFileError with all problems at once."""
    return preset_of_text(read_text(path), str(path))


def preset_of_text(text: str, name: str) -> Preset:
    """Return the preset in a text; `name` is the file's, for messages. Raise GoalFileError."""
    table, positions = parse(text, name)
    problems = Problems()
    source = Source(base=Path(), positions=positions)
    try:
        return Preset.model_validate(table, context=FROM_FILE)
    except ValidationError as error:
        report(error, schema_of(Preset), lambda path: Spot(source, problems, path))
        problems.raise_any(name)
        raise
