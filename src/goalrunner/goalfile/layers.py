"""The layers of a goal: file, environment and options; where each value was written, and the problems found there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import SkipJsonSchema

from goalrunner.core.errors import (
    GoalFileError,
    Problem,
    kind,
    nearest,
    quoted,
    toml_value,
)
from goalrunner.core.field_types import SCRIPTED, InnerError
from goalrunner.core.goal import (
    SHORT_KEYS,
    SHORT_TABLES,
    Goal,
    short_form_conflicts,
    validator_tables,
)
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.goalfile.toml_text import NO_POSITIONS, NOWHERE, Key, Place, Positions


@dataclass
class Problems:
    """The problems found so far, and the keys that need no second message."""

    found: dict[Problem, None] = field(default_factory=dict)
    excused: set[Key] = field(default_factory=set)

    def add(self, message: str, key: str = "", place: Place = NOWHERE) -> None:
        """Add a problem, unless it is already known."""
        self.found[
            Problem(message=message, key=key, line=place[0], column=place[1])
        ] = None

    def excuses(self, *paths: Key) -> bool:
        """Return whether a problem is already known at, above or below one of these keys."""
        return any(
            known[: len(path)] == path[: len(known)]
            for known in self.excused
            for path in paths
        )

    def raise_any(self, path: str) -> None:
        """Raise all problems at once, in the order of the file, those without a line last. Do nothing if there are none."""
        if self.found:
            ordered = sorted(
                self.found,
                key=lambda problem: (problem.line or float("inf"), problem.column),
            )
            raise GoalFileError(path, tuple(ordered))


@dataclass(frozen=True)
class ValueSource:
    """The source of values: a file, the options, or the environment."""

    problems: Problems
    base: Path = Path()
    """The folder that relative paths start from."""
    positions: Positions = NO_POSITIONS
    names: Mapping[Key, str] = field(default_factory=dict)
    """Names of keys that differ from the dotted name: `--timeout`, `GOAL_MODEL`."""
    textual: bool = False
    """Whether numbers may be text, as on a command line."""


@dataclass(frozen=True)
class Spot:
    """The place of a value in its source, to report problems there."""

    source: ValueSource
    path: Key = ()

    @property
    def label(self) -> str:
        """The name of the key for messages."""
        for length in range(len(self.path), 0, -1):
            if name := self.source.names.get(self.path[:length]):
                return name
        return ".".join(str(part) for part in self.path if not isinstance(part, int))

    @property
    def header(self) -> str:
        """The name of the table as its header is written."""
        return (
            f"[[{self.label}]]"
            if self.path and isinstance(self.path[-1], int)
            else f"[{self.label}]"
        )

    def item(self, step: str | int) -> Spot:
        """Return the spot of a value inside this one."""
        return Spot(self.source, (*self.path, step))

    def wrong(self, rest: str) -> None:
        """Report a wrong value; the message is the key's name and `rest`."""
        self._note(f"{self.label} {rest}", self.source.positions.value(self.path))

    def wrong_key(self, message: str) -> None:
        """Report a wrong key, or its table as a whole."""
        self._note(message, self.source.positions.key(self.path))

    def _note(self, message: str, place: Place) -> None:
        self.source.problems.add(message, self.label, place)
        self.source.problems.excused.add(self.path)


SECTIONS: dict[str, type[BaseModel]] = {
    name: info.annotation
    for name, info in Goal.model_fields.items()
    if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)
}
"""The tables of a goal file that have fixed keys."""


def written_keys(model: type[BaseModel]) -> list[str]:
    """Return the fields of a table that a goal file can contain."""
    fields = model.model_fields.items()
    return [
        name for name, info in fields if SkipJsonSchema not in map(type, info.metadata)
    ]


_DOTTED = [
    f"{table}.{key}" for table, model in SECTIONS.items() for key in written_keys(model)
]


@dataclass
class GoalLayer:
    """Values by their long keys, and the spot where each was written."""

    values: dict[Key, Any] = field(default_factory=dict)
    spots: dict[Key, Spot] = field(default_factory=dict)

    def put(self, key: Key, value: object, spot: Spot) -> None:
        """Add a value, also in its short form. A relative path becomes absolute, from the folder of its source."""
        is_short = isinstance(value, str) or (
            key == ("agent",) and isinstance(value, list)
        )
        if key[0] in SHORT_TABLES and len(key) == 1 and is_short:
            key = (key[0], SHORT_TABLES[str(key[0])])
        elif key == ("validator",):
            key, value = ("validators",), validator_tables(value)
        elif key == ("model",):
            key = SHORT_KEYS["model"]
        if isinstance(value, str):
            with suppress(
                OSError, RuntimeError, ValueError
            ):  # the check of the value reports it
                value = _absolute(key, value, spot.source.base)
        self.values[key] = value
        self.spots[key] = spot

    def over(self, lower: GoalLayer) -> GoalLayer:
        """Return both layers as one. Values of this layer take precedence; a judge or critic replaces the lower one."""
        replaced = {
            (table, key)
            for table in ("judge", "critic")
            for key in ("use", "model")
            if (table, "use") in self.values or (table, "model") in self.values
        }
        values = {
            key: value for key, value in lower.values.items() if key not in replaced
        }
        spots = {key: spot for key, spot in lower.spots.items() if key not in replaced}
        return GoalLayer(
            values={**values, **self.values}, spots={**spots, **self.spots}
        )

    @property
    def is_chat(self) -> bool:
        return bool(self.values.get(("agent", "use"), BUILTIN) == BUILTIN)

    def table(self) -> dict[str, Any]:
        table: dict[str, Any] = {
            str(key[0]): value for key, value in self.values.items() if len(key) == 1
        }
        for key, value in self.values.items():
            if len(key) == 2 and (key[0],) not in self.values:
                table.setdefault(str(key[0]), {})[key[1]] = value
        return table

    def spot(self, path: Key, problems: Problems) -> Spot:
        """Return where the value at `path` of the goal was written."""
        for length in (2, 1):
            if path[:length] in self.spots:
                spot = self.spots[path[:length]]
                is_short = path[0] == "validators" and (
                    spot.path[0] != "validators" or spot.source.textual
                )
                for step in path[length:]:
                    if not (is_short and isinstance(step, str)):
                        spot = spot.item(step)
                return spot
        return Spot(ValueSource(problems), path)


def _absolute(key: Key, value: str, base: Path) -> str:
    """Return a path, or the path in a scripted model's name, as an absolute one; return any other text unchanged."""
    prefix = SCRIPTED if key[1:] == ("model",) and value.startswith(SCRIPTED) else ""
    path = value.removeprefix(prefix)
    if (prefix and path) or (key == ("workspace", "path") and value.strip()):
        return prefix + str((base / Path(path).expanduser()).resolve())
    return value


def file_layer(table: Mapping[str, Any], source: ValueSource) -> GoalLayer:
    """Return the values of a goal file's table."""
    top, layer = Spot(source), GoalLayer()
    for key, value in table.items():
        spot = top.item(key)
        if key in SECTIONS and isinstance(value, Mapping):
            layer.spots[key,] = spot
            for name, item in value.items():
                layer.put((key, name), item, spot.item(name))
        elif key == "validators" and not (
            isinstance(value, list) and all(isinstance(item, Mapping) for item in value)
        ):
            ways = 'write [[validators]] with run = "...", or validator = "...", or validator = ["a", "b"]'
            spot.wrong_key(f"validators are tables; {ways}")
        else:
            layer.put((key,), value, spot)
    for key, message in short_form_conflicts(table):
        top.item(key).wrong_key(message)
    return layer


def named_layer(
    entries: Iterable[tuple[str, str, Any]], base: Path, problems: Problems
) -> GoalLayer:
    """Return the values of options or variables. An entry is a dotted key ("agent.model"), a name, and a value."""
    layer, given = GoalLayer(), list(entries)
    names: dict[Key, str] = {tuple(key.split(".")): name for key, name, _ in given}
    source = ValueSource(problems, base, names=names, textual=True)
    for key, _, value in given:
        path = tuple(key.split("."))
        spot = Spot(source, path)
        if key in SHORT_KEYS or key in Goal.model_fields or key in _DOTTED:
            layer.put(
                ("validator",) if key == "validators" else path,
                _spelled(path, value),
                spot,
            )
        else:
            near = nearest(key, [*Goal.model_fields, *_DOTTED])
            spot.wrong_key(
                f"unknown key {quoted(key)}{f'; did you mean {quoted(near)}?' if near else ''}"
            )
    return layer


def _spelled(path: tuple[str, ...], value: object) -> object:
    """Convert a text of the command line to a number or a bool, if the key takes one and the text is one.

    Names of agents are separated by commas.
    """
    if path == ("agent", "use") and isinstance(value, str) and "," in value:
        return [name.strip() for name in value.split(",")]
    hint = get_type_hints(SECTIONS[path[0]] if len(path) == 2 else Goal).get(path[-1])
    if not isinstance(value, str) or {int, float, bool}.isdisjoint(
        (hint, *get_args(hint))
    ):
        return value
    if value in {"true", "false"}:
        return value == "true"
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value


def report_invalid(
    error: ValidationError, model: type[BaseModel], spot_of: Callable[[Key], Spot]
) -> None:
    """Report all problems of a validation except a missing objective; `spot_of` returns the spot of a model's path."""
    for detail in error.errors(include_url=False):
        path, reason = detail["loc"], detail.get("ctx", {}).get("error")
        is_key = path[-1:] == ("[key]",)
        spot = spot_of(path[:-1] if is_key else path)
        if path == ("objective",) and detail["type"] == "missing":
            continue
        if isinstance(reason, InnerError):
            spot = spot_of((*path, *reason.path))
            if reason.key:
                spot.wrong_key(
                    reason.reason
                    if reason.whole
                    else f"{spot.label} {reason.reason}".lstrip()
                )
            else:
                spot.wrong(reason.reason)
        elif is_key and reason is not None:
            table = Spot(spot.source, spot.path[:-1])
            spot.wrong_key(f"{quoted(str(spot.path[-1]))} in {table.header} {reason}")
        elif is_key or detail["type"] == "extra_forbidden":
            _report_unknown(spot, spot_of(path[:-2] if is_key else path[:-1]), model)
        else:
            spot.wrong(
                str(reason)
                if detail["type"] == "value_error"
                else _reason(detail, spot.path)
            )


_KINDS = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list of strings",
    "dict": "a table",
    "model": "a table",
}
"""Types by the beginning of pydantic's name for an error of a wrong type: `int_type`, `int_from_float`."""
_LIMITS = {"stall_rounds", "max_iterations", "tokens", "cost_usd"}


def _reason(detail: Any, path: Key) -> str:
    """Return the message for the value at `path`: for a wrong type our own, else pydantic's."""
    given, top = detail["input"], str(path[0])
    wanted = _KINDS.get(detail["type"].partition("_")[0])
    if wanted and not detail["type"].endswith("_too_short"):
        remedy = (
            "; write inf without the quotes"
            if given == "inf" and path[-1] in _LIMITS
            else ""
        )
        if path in (("validator",), ("agent", "command")):
            wanted = "a string or a list of strings"
        if path[0] == "validator" and isinstance(given, dict):
            remedy = "; write [[validators]]"
        elif wanted == "a table" and len(path) == 1:
            wanted, remedy = (
                f"{'a string or ' if top in SHORT_TABLES else ''}a table",
                f"; write [{top}]",
            )
        return f"must be {wanted}, not {kind(given)}{remedy}"
    lifted = (
        "; write inf to lift the limit"
        if detail["type"].startswith("greater_") and path[-1] in _LIMITS
        else ""
    )
    return f"{detail['msg'].removeprefix('Input ').replace('should', 'must', 1)}, not {toml_value(given)}{lifted}"


_PARSER = 'was removed; write stream = "claude", or the name of another agent whose parser reads the output'
_TRIAL = "was removed: goal agents --try runs one real round with the agent's own provider; remove it"
_REMOVED = {
    "clean_proof": 'was removed; write [workspace] check = "in-place" to run validators in the workspace itself',
    "link": 'was removed; name folders of installed packages with dependencies = ["..."]',
    "jailed_env": "was renamed; write sandbox_env",
    "replay": "was removed; remove it: a command counts if nothing changed after it was started",
    **dict.fromkeys(("rules", "session_after"), _PARSER),
    **dict.fromkeys(("wire", "server", "server_args", "server_files"), _TRIAL),
}
"""Keys of earlier versions, with what to write instead."""


def _report_unknown(spot: Spot, table: Spot, model: type[BaseModel]) -> None:
    key, valid = str(spot.path[-1]), _keys(model, table.path)
    if key in _REMOVED:
        spot.wrong_key(f"{spot.label} {_REMOVED[key]}")
        return
    homes = [header for header, path in _tables(model) if key in _keys(model, path)]
    if homes:
        remedy = f"it belongs {' or '.join(homes)}"
    elif near := nearest(key, valid):
        remedy = f"did you mean {quoted(near)}?"
        spot.source.problems.excused.add((*table.path, near))
    else:
        remedy = (
            f"valid: {', '.join(sorted(valid))}"
            if valid
            else "its keys are whole numbers"
        )
    where = f" in {table.header}" if table.path else ""
    spot.wrong_key(f"unknown key {quoted(key)}{where}; {remedy}")


def _tables(model: type[BaseModel]) -> Iterator[tuple[str, Key]]:
    """Yield each table that may hold a misplaced key, in words, and its path."""
    yield "at the top of the file, before the first table", ()
    for name in model.model_fields:
        yield f"in [{name}]", (name,)
        yield f"in [[{name}]]", (name, 0)


def _keys(model: type[BaseModel], path: Key) -> set[str]:
    """Return the keys of the table at `path`."""
    node: Any = model
    for step in path:
        if isinstance(node, type) and issubclass(node, BaseModel):
            field = node.model_fields.get(str(step))
            node = field.annotation if field else None
        else:  # an element of a list, or a value of a table with free keys
            arguments = [one for one in get_args(node) if one is not ...]
            node = (
                arguments[-1]
                if arguments and isinstance(step, int) == (get_origin(node) is tuple)
                else None
            )
    if isinstance(node, type) and issubclass(node, BaseModel):
        return {*written_keys(node), *(SHORT_KEYS if node is Goal else ())}
    choices = get_args(get_args(node)[0]) if get_origin(node) is dict else ()
    return {choice for choice in choices if isinstance(choice, str)}
