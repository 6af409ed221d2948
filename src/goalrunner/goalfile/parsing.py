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
from goalrunner.goalfile.messages import report
from goalrunner.goalfile.positions import LongKeyError, Positions, line_starts_of, locate, place_of
from goalrunner.goalfile.problems import Problems, Source, Spot
from goalrunner.goalfile.schema import schema_of

LARGEST = 1_000_000
"""Bytes that a goal file may have."""

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_PART = r"'([^']*)'"
_TABLE = re.compile(rf"\((?:{_PART}(?:, |,)?)+\)")
_AT_END = re.compile(r" \(at end of document\)$")


def parse(text: str, name: str) -> tuple[dict[str, Any], Positions]:
    """The table that a text holds, and where its keys stand; `name` stands for the file. Raises GoalFileError."""
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
        raise refusal(name, f"is no valid TOML: {why}") from error


def read_text(path: Path, *, missing: Callable[[], str] = str, folder: Callable[[], str] = str) -> str:
    """The text of a file; a byte order mark before it is accepted. Raises GoalFileError.

    `missing` gives what is said in addition where there is no such file, `folder` where it is a folder.
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
        raise refusal(name, "may not be read: permission denied") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refusal(name, f"cannot be read: {why}") from error
    if len(data) > LARGEST:
        raise refusal(name, "is larger than 1 MB; a goal file is a few lines of TOML")
    return _decode(data, name)


def refusal(name: str, message: str, place: tuple[int, int] = (0, 0)) -> GoalFileError:
    """One problem of a file as such."""
    return GoalFileError(name, (Problem(message=message, line=place[0], column=place[1]),))


def _decode(data: bytes, name: str) -> str:
    """The text; a byte order mark before it is accepted."""
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
        raise refusal(name, "a NUL byte stands here; this is no text file", place)
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
    """A table as its header is written, where the parser shows it as a tuple: ('a', 'b')."""
    return f"[{'.'.join(re.findall(_PART, table[0]))}]"


def _both_forms(text: str, line: int, name: str) -> GoalFileError | None:
    """A table beside its own short form, which TOML already refuses, said in words that help."""
    header = re.match(r"\s*\[\s*(agent|judge)\s*[.\]]", text.split("\n")[line - 1])
    if header is None or not re.search(rf"(?m)^[ \t]*{header[1]}[ \t]*=", text):
        return None
    table, key = header[1], SHORT_TABLES[header[1]]
    message = f'"{table}" stands above as a short form as well; write it as {key} = "..." in [{table}]'
    return refusal(name, message, (line, header.start(1) + 1))


@dataclass(frozen=True)
class Known:
    """The agents that a goal may name: its own, those of the user, and those that come along."""

    own: Mapping[str, Preset] = field(default_factory=dict)
    """What the goal's `[agents]` holds."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The user's own."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, those that are no presets first."""
        return (*RESERVED_AGENTS, *sorted({*agent_names(), *self.files, *self.own}))

    def preset(self, name: str) -> Preset:
        """The one of that name. Raises GoalFileError for a user's file that does not hold, KeyError for no such name."""
        if name in self.own:
            return self.own[name]
        if name in (CHAT, COMMAND, ACP):
            return Preset()
        if name in self.files:
            return read_preset(self.files[name])
        return parser_class(name).preset


def preset_named(name: str, own: Mapping[str, Preset], environ: Mapping[str, str]) -> Preset:
    """The preset of that name, for a goal whose `[agents]` are `own`.

    Raises GoalFileError for a file of the user's that does not hold, and UsageError where there is no such agent.
    """
    known = Known(own, user_files(environ))
    try:
        return known.preset(name)
    except KeyError:
        raise UsageError(f"there is no agent {quoted(name)}", f"valid: {listed(known.names)}") from None


def all_presets(own: Mapping[str, Preset], environ: Mapping[str, str]) -> dict[str, Preset]:
    """All that such a goal may name. Raises GoalFileError for a file of the user's that does not hold, used or not."""
    known = Known(own, user_files(environ))
    return {name: known.preset(name) for name in known.names if name not in RESERVED_AGENTS}


def read_preset(path: Path) -> Preset:
    """The preset in a file of the user's. Raises GoalFileError with everything that is wrong in it at once."""
    return preset_of_text(read_text(path), str(path))


def preset_of_text(text: str, name: str) -> Preset:
    """The same for a text; `name` stands for the file in messages. Raises GoalFileError."""
    table, positions = parse(text, name)
    problems = Problems()
    source = Source(base=Path(), positions=positions)
    try:
        return Preset.model_validate(table, context=FROM_FILE)
    except ValidationError as error:
        report(error, schema_of(Preset), lambda path: Spot(source, problems, path))
        problems.raise_any(name)
        raise
