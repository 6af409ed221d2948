"""The layers of a goal: file, environment and options, with the place of each value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema

from goalrunner.core.errors import nearest, quoted
from goalrunner.core.field_types import SCRIPTED
from goalrunner.core.goal import (
    SHORT_KEYS,
    SHORT_TABLES,
    Goal,
    short_form_conflicts,
    validator_tables,
)
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.goalfile.problems import Problems, Spot, ValueSource
from goalrunner.goalfile.toml_text import Key

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
        """Add a value, also in its short form.

        A relative path becomes absolute, from the folder of its source.
        """
        is_list_of_agents = key == ("agent",) and isinstance(value, list)
        is_short = isinstance(value, str) or is_list_of_agents
        if len(key) == 1 and key[0] in SHORT_TABLES and is_short:
            key = (key[0], SHORT_TABLES[str(key[0])])
        elif key == ("validator",):
            key, value = ("validators",), validator_tables(value)
        elif key == ("model",):
            key = SHORT_KEYS["model"]
        if isinstance(value, str):
            # The check of the value reports a path that does not work.
            with suppress(OSError, RuntimeError, ValueError):
                value = _absolute(key, value, spot.source.base)
        self.values[key] = value
        self.spots[key] = spot

    def over(self, lower: GoalLayer) -> GoalLayer:
        """Return both layers as one.

        Values of this layer take precedence.
        """
        # A judge is a program or a model: one that is named here replaces both keys of
        # the lower layer.
        replaced: set[Key] = set()
        for table in ("judge", "critic"):
            keys: set[Key] = {(table, "use"), (table, "model")}
            if keys & self.values.keys():
                replaced |= keys
        merged = GoalLayer(dict(lower.values), dict(lower.spots))
        for key in replaced:
            merged.values.pop(key, None)
            merged.spots.pop(key, None)
        merged.values.update(self.values)
        merged.spots.update(self.spots)
        return merged

    @property
    def is_chat(self) -> bool:
        """Whether the agent is the built-in one."""
        return bool(self.values.get(("agent", "use"), BUILTIN) == BUILTIN)

    def table(self) -> dict[str, Any]:
        """Return the values as the nested table of a goal file."""
        table: dict[str, Any] = {
            str(key[0]): value for key, value in self.values.items() if len(key) == 1
        }
        for key, value in self.values.items():
            # A table that is written as another value is reported by the model.
            if len(key) == 2 and (key[0],) not in self.values:
                table.setdefault(str(key[0]), {})[key[1]] = value
        return table

    def spot(self, path: Key, problems: Problems) -> Spot:
        """Return where the value at `path` of the goal was written."""
        for length in (2, 1):
            spot = self.spots.get(path[:length])
            if spot is not None:
                return _inner_spot(spot, path, length)
        return Spot(ValueSource(problems), path)


def _inner_spot(spot: Spot, path: Key, length: int) -> Spot:
    """Return the spot of `path`; `spot` is that of its first `length` steps."""
    # Validators in a short form are texts: they have elements, but no keys.
    is_short = path[0] == "validators" and (
        spot.path[0] != "validators" or spot.source.textual
    )
    for step in path[length:]:
        if not (is_short and isinstance(step, str)):
            spot = spot.item(step)
    return spot


def _absolute(key: Key, value: str, base: Path) -> str:
    """Return a path as an absolute one; return any other text unchanged.

    The name of a scripted model contains a path as well.
    """
    is_scripted = key[1:] == ("model",) and value.startswith(SCRIPTED)
    prefix = SCRIPTED if is_scripted else ""
    path = value.removeprefix(prefix)
    is_workspace = key == ("workspace", "path") and bool(value.strip())
    if is_workspace or (is_scripted and path):
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
        elif key == "validators" and not _is_list_of_tables(value):
            spot.wrong_key(
                'validators are tables; write [[validators]] with run = "...",'
                ' or validator = "...", or validator = ["a", "b"]'
            )
        else:
            layer.put((key,), value, spot)
    for key, message in short_form_conflicts(table):
        top.item(key).wrong_key(message)
    return layer


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def named_layer(
    entries: Iterable[tuple[str, str, Any]], base: Path, problems: Problems
) -> GoalLayer:
    """Return the values of options or variables.

    An entry is a dotted key ("agent.model"), a name, and a value.
    """
    layer, entries = GoalLayer(), list(entries)
    names: dict[Key, str] = {tuple(key.split(".")): name for key, name, _ in entries}
    source = ValueSource(problems, base, names=names, textual=True)
    for key, _, value in entries:
        path = tuple(key.split("."))
        spot = Spot(source, path)
        if key in SHORT_KEYS or key in Goal.model_fields or key in _DOTTED:
            # Options name a validator by its command, which is its short form.
            place = ("validator",) if key == "validators" else path
            layer.put(place, _spelled(path, value), spot)
            continue
        near = nearest(key, [*Goal.model_fields, *_DOTTED])
        hint = f"; did you mean {quoted(near)}?" if near else ""
        spot.wrong_key(f"unknown key {quoted(key)}{hint}")
    return layer


def _spelled(path: tuple[str, ...], value: object) -> object:
    """Return a text of the command line as a number or a bool, if the key takes one.

    A text that is neither stays a text. Names of agents are separated by commas.
    """
    if not isinstance(value, str):
        return value
    if path == ("agent", "use") and "," in value:
        return [name.strip() for name in value.split(",")]
    model = SECTIONS[path[0]] if len(path) == 2 else Goal
    hint = get_type_hints(model).get(path[-1])
    if {int, float, bool}.isdisjoint((hint, *get_args(hint))):
        return value
    if value in {"true", "false"}:
        return value == "true"
    # Texts such as "30m" are read by the model.
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value
