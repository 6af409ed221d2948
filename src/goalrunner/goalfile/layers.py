"""The layers of a goal: file, environment and options, with the names of options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

from goalrunner.core.errors import nearest, quoted
from goalrunner.core.field_types import SCRIPTED
from goalrunner.core.goal import SHORT_KEYS, SHORT_TABLES, Goal, short_form_conflicts, validator_tables
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.goalfile.problems import Problems, Source, Spot
from goalrunner.goalfile.toml_text import Key

SECTIONS: dict[str, type[BaseModel]] = {
    name: info.annotation
    for name, info in Goal.model_fields.items()
    if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)
}
"""The tables of a goal file that have fixed keys."""
_DOTTED = [f"{table}.{key}" for table, model in SECTIONS.items() for key in model.model_fields]


@dataclass
class Layer:
    """Values by their long keys, and the spot where each was written."""

    values: dict[Key, Any] = field(default_factory=dict)
    spots: dict[Key, Spot] = field(default_factory=dict)

    def put(self, key: Key, value: object, spot: Spot) -> None:
        """Add a value, also in its short form. A relative path becomes absolute, from the folder of its source."""
        if key[0] in SHORT_TABLES and len(key) == 1 and isinstance(value, str):
            key = (key[0], SHORT_TABLES[str(key[0])])
        elif key == ("validator",):
            key, value = ("validators",), validator_tables(value)
        elif key == ("model",):
            key = SHORT_KEYS["model"]
        if isinstance(value, str):
            try:
                value = _absolute(key, value, spot.source.base)
            except (OSError, RuntimeError) as error:
                spot.wrong(f"{quoted(value)} cannot be found: {error}")
                return
            except ValueError:
                pass  # validation reports it
        self.values[key] = value
        self.spots[key] = spot

    def over(self, lower: Layer) -> Layer:
        """Return both layers as one. Values of this layer take precedence."""
        return Layer(values={**lower.values, **self.values}, spots={**lower.spots, **self.spots})

    @property
    def is_chat(self) -> bool:
        return bool(self.values.get(("agent", "use"), BUILTIN) == BUILTIN)

    def table(self) -> dict[str, Any]:
        table: dict[str, Any] = {str(key[0]): value for key, value in self.values.items() if len(key) == 1}
        for key, value in self.values.items():
            if len(key) == 2 and (key[0],) not in self.values:
                table.setdefault(str(key[0]), {})[key[1]] = value
        return table

    def spot(self, path: Key, problems: Problems) -> Spot:
        """Return where the value at `path` of the goal was written."""
        for length in (2, 1):
            if path[:length] in self.spots:
                spot = self.spots[path[:length]]
                is_short = path[0] == "validators" and (spot.path[0] != "validators" or spot.source.textual)
                for step in path[length:]:
                    if not (is_short and isinstance(step, str)):
                        spot = spot.item(step)
                return spot
        return Spot(Source(problems), path)


def _absolute(key: Key, value: str, base: Path) -> str:
    """Return a path, or the path in a scripted model's name, as an absolute one; return any other text unchanged."""
    prefix = SCRIPTED if key[1:] == ("model",) and value.startswith(SCRIPTED) else ""
    path = value.removeprefix(prefix)
    if (prefix and path) or (key == ("workspace", "path") and value.strip()):
        return prefix + str((base / Path(path).expanduser()).resolve())
    return value


def file_layer(table: Mapping[str, Any], source: Source) -> Layer:
    """Return the values of a goal file's table."""
    top, layer = Spot(source), Layer()
    for key, value in table.items():
        spot = top.item(key)
        if key in SECTIONS and isinstance(value, Mapping):
            layer.spots[key,] = spot
            for name, item in value.items():
                layer.put((key, name), item, spot.item(name))
        elif key == "validators" and not (isinstance(value, list) and all(isinstance(item, Mapping) for item in value)):
            spot.wrong_key('validators are tables; write [[validators]] with run = "...", or validator = "..."')
        else:
            layer.put((key,), value, spot)
    for key, message in short_form_conflicts(table):
        top.item(key).wrong_key(message)
    return layer


def named_layer(entries: Iterable[tuple[str, str, Any]], base: Path, problems: Problems) -> Layer:
    """Return the values of options or variables. An entry is a dotted key ("agent.model"), a name, and a value."""
    layer, given = Layer(), list(entries)
    names: dict[Key, str] = {tuple(key.split(".")): name for key, name, _ in given}
    source = Source(problems, base, names=names, textual=True)
    for key, _, value in given:
        path = tuple(key.split("."))
        spot = Spot(source, path)
        if key in SHORT_KEYS or key in Goal.model_fields or key in _DOTTED:
            layer.put(("validator",) if key == "validators" else path, _spelled(path, value), spot)
        else:
            near = nearest(key, [*Goal.model_fields, *_DOTTED])
            spot.wrong_key(f"unknown key {quoted(key)}{f'; did you mean {quoted(near)}?' if near else ''}")
    return layer


def _spelled(path: tuple[str, ...], value: object) -> object:
    """Convert a text of the command line to a number or a bool, if the key takes one and the text is one."""
    hint = get_type_hints(SECTIONS[path[0]] if len(path) == 2 else Goal).get(path[-1])
    if not isinstance(value, str) or {int, float, bool}.isdisjoint((hint, *get_args(hint))):
        return value
    if value in {"true", "false"}:
        return value == "true"
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value


OPTIONS = {
    "agent.use": "--agent",
    "agent.model": "--model",
    "judge.model": "--judge",
    "validators": "--validator",
    "success_criteria": "--criterion",
    "constraints": "--constraint",
    "workspace.path": "--workspace",
    "budget.tokens": "--tokens",
    "budget.cost_usd": "--cost",
    "budget.allow_unenforced": "--allow-unenforced",
}
"""Options with other names than their keys. The others follow from the key: `risk_class` is `--risk-class`."""


def option_of(key: str) -> str:
    """Return the option that sets a dotted key: `--max-iterations` for `max_iterations`."""
    return OPTIONS.get(key, "--" + key.replace(".", "-").replace("_", "-"))
