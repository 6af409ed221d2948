"""Problems of a goal file: their places, and their messages, made from pydantic's errors and the JSON schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from goalrunner.core.errors import GoalFileError, Problem, kind, nearest, quoted, shown
from goalrunner.core.field_types import InnerError
from goalrunner.goalfile.toml_text import NO_POSITIONS, NOWHERE, Key, Place, Positions


@dataclass
class Problems:
    """The problems found so far, and the keys that need no second message."""

    found: dict[Problem, None] = field(default_factory=dict)
    excused: set[Key] = field(default_factory=set)

    def add(self, message: str, key: str = "", place: Place = NOWHERE) -> None:
        """Add a problem, unless it is already known."""
        self.found[Problem(message=message, key=key, line=place[0], column=place[1])] = None

    def excuses(self, *paths: Key) -> bool:
        """Return whether a problem is already known at, above or below one of these keys."""
        return any(known[: len(path)] == path[: len(known)] for known in self.excused for path in paths)

    def raise_any(self, path: str) -> None:
        """Raise all problems at once, in the order of the file, those without a line last. Do nothing if there are none."""
        if self.found:
            ordered = sorted(self.found, key=lambda problem: (problem.line or float("inf"), problem.column))
            raise GoalFileError(path, tuple(ordered))


Node = dict[str, Any]


@dataclass(frozen=True)
class Source:
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

    source: Source
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
        return f"[[{self.label}]]" if self.path and isinstance(self.path[-1], int) else f"[{self.label}]"

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


def report(error: ValidationError, model: type[BaseModel], spot_of: Callable[[Key], Spot]) -> None:
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
                spot.wrong_key(reason.reason if reason.whole else f"{spot.label} {reason.reason}".lstrip())
            else:
                spot.wrong(reason.reason)
        elif is_key and reason is not None:
            table = Spot(spot.source, spot.path[:-1])
            spot.wrong_key(f"{quoted(str(spot.path[-1]))} in {table.header} {reason}")
        elif is_key or detail["type"] == "extra_forbidden":
            _report_unknown(spot, spot_of(path[:-2] if is_key else path[:-1]), model)
        else:
            spot.wrong(str(reason) if detail["type"] == "value_error" else _reason(detail, spot.path, model))


_KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a table",
    "array": "a list",
}
"""Types of the JSON schema in words."""
_OF_TYPES = ("string_type", "int_", "float_", "bool_", "dict_", "model_", "tuple_")
"""Prefixes of pydantic's names for errors of a wrong type."""
_WRITTEN = {
    "budget": "[budget] cost_usd = 2.50",
    "workspace": '[workspace] path = "..."',
    "validator": '[[validators]] with run = "..."',
}
"""Keys that are often written in another form, and what to write."""


def _reason(detail: Any, path: Key, model: type[BaseModel]) -> str:
    """Return the message for the value at `path`: for a wrong type our own, else pydantic's."""
    types = {node.get("type"): node for node in _nodes(model, path)}
    nodes = [node for node in types.values() if node.get("type") in _KINDS]
    if nodes and detail["type"].startswith(_OF_TYPES):
        of_strings = any(node.get("items", {}).get("type") == "string" for node in nodes)
        kinds = dict.fromkeys(_KINDS[node["type"]] for node in nodes)
        wanted = " or ".join(f"{one} of strings" if one == "a list" and of_strings else one for one in kinds)
        form = _WRITTEN.get(".".join(part for part in path if isinstance(part, str)))
        remedy = f"; write {form}" if form and ("a table" in kinds or isinstance(detail["input"], dict)) else ""
        return f"must be {wanted}, not {kind(detail['input'])}{remedy}"
    is_limit = detail.get("ctx", {}).get("ge") == 1 or detail["type"] == "greater_than"
    lifted = "; write inf to lift the limit" if is_limit and "null" in types else ""
    return f"{detail['msg'].removeprefix('Input ').replace('should', 'must', 1)}, not {shown(detail['input'])}{lifted}"


_PARSER = 'was removed; write stream = "claude", or the name of another agent whose parser reads the output'
_TRIAL = "was removed: goal doctor --try runs one real round with the agent's own provider; remove it"
_REMOVED = {
    "clean_proof": 'was removed; write [workspace] check = "in-place" to run validators in the workspace itself',
    "link": 'was removed; name folders of installed packages with dependencies = ["..."]',
    "jailed_env": "was renamed; write sandbox_env",
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
        remedy = f"valid: {', '.join(sorted(valid))}"
    where = f" in {table.header}" if table.path else ""
    spot.wrong_key(f"unknown key {quoted(key)}{where}; {remedy}")


def _tables(model: type[BaseModel]) -> Iterator[tuple[str, Key]]:
    """Yield each table that may hold a misplaced key, in words, and its path."""
    yield "at the top of the file, before the first table", ()
    for name in _schema(model).get("properties", {}):
        yield f"in [{name}]", (name,)
        yield f"in [[{name}]]", (name, 0)


@cache
def _schema(model: type[BaseModel]) -> Node:
    return model.model_json_schema()


def _keys(model: type[BaseModel], path: Key) -> set[str]:
    nodes = _nodes(model, path)
    named = {key for node in nodes for key in node.get("propertyNames", {}).get("enum", ())}
    return named.union(*(node.get("properties", {}) for node in nodes))


def _nodes(model: type[BaseModel], path: Key) -> list[Node]:
    """Return the schemas that the value at `path` may have."""
    root = _schema(model)
    nodes = _branches(root, root)
    for step in path:
        nodes = [found for node in nodes for found in _branches(root, _child(node, step))]
    return nodes


def _branches(root: Node, node: Node) -> list[Node]:
    if "$ref" in node:
        return _branches(root, root["$defs"][node["$ref"].rpartition("/")[2]])
    return [found for branch in node["anyOf"] for found in _branches(root, branch)] if "anyOf" in node else [node]


def _child(node: Node, step: str | int) -> Node:
    if isinstance(step, int):
        return node.get("items") or {}
    found = node.get("properties", {}).get(step) or node.get("additionalProperties")
    return found if isinstance(found, dict) else {}
