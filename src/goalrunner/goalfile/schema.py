"""What the JSON schema of a goal says about a key: its type, range, choices, and the keys beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from goalrunner.core.number_types import LARGEST
from goalrunner.core.wording import listed
from goalrunner.goalfile.positions import Key

Node = dict[str, Any]


@dataclass(frozen=True)
class Schema:
    """The JSON schema of a model."""

    root: Node

    def at(self, path: Key) -> list[Node]:
        """Return what the value at `path` may be: several nodes for a union, none for an unknown key."""
        nodes = self._branches(self.root)
        for step in path:
            nodes = [found for node in nodes for found in self._branches(_child(node, step))]
        return nodes

    def keys(self, path: Key) -> set[str]:
        """Return the keys of the table at `path`."""
        nodes = self.at(path)
        named = {key for node in nodes for key in node.get("propertyNames", {}).get("enum", ())}
        return named.union(*(node.get("properties", {}) for node in nodes))

    def choices(self, path: Key) -> tuple[str, ...]:
        """Return the words that the value at `path` may be."""
        return tuple(word for node in self.at(path) for word in node.get("enum", ()) if word)

    def wanted(self, path: Key) -> str:
        """Return the type of the value at `path` in words: "a string or a table"."""
        return " or ".join(dict.fromkeys(self._kind(node) for node in self.at(path)))

    def remedy(self, path: Key) -> str:
        """Return the range of the number at `path` in words, and whether `inf` lifts it."""
        node = next((node for node in self.at(path) if node.get("type") in ("integer", "number")), {})
        is_limit = any("inf: " in parent.get("description", "") for parent in self._described(path))
        return f"write {_number(node)}{', or inf to lift the limit' if is_limit else ''}"

    def homes(self, key: str) -> list[str]:
        """Return the tables that have the key, as their headers are written."""
        if key in self.keys(()):
            return ["at the top of the file, before the first table"]
        return [f"in {header}" for header, path in self._tables() if key in self.keys(path)]

    def _tables(self) -> Iterator[tuple[str, Key]]:
        for name in self.root.get("properties", {}):
            if self.keys((name,)):
                yield f"[{name}]", (name,)
            if inner := self.keys((name, 0)):
                yield f"[[{name}]]", (name, 0)
                yield from (
                    (f"{key} of [[{name}]]", (name, 0, key)) for key in sorted(inner) if self.keys((name, 0, key))
                )
            if self.keys((name, "NAME")):
                yield f"[{name}.NAME]", (name, "NAME")

    def _described(self, path: Key) -> Iterator[Node]:
        for node in self.at(path[:-1]):
            yield _child(node, path[-1])

    def _branches(self, node: Node) -> list[Node]:
        if "$ref" in node:
            return self._branches(self.root["$defs"][node["$ref"].rpartition("/")[2]])
        if "anyOf" in node:
            return [found for branch in node["anyOf"] for found in self._branches(branch)]
        return [node] if node.get("type", "null") != "null" or "enum" in node else []

    def _kind(self, node: Node) -> str:
        match node:
            case {"enum": words}:
                return f"one of {listed(filter(None, words))}"
            case {"type": "integer"}:
                return "a whole number"
            case {"type": "number", "maximum": 1}:
                return _number(node)
            case {"type": "array", "items": items}:
                kinds = {branch.get("type") for branch in self._branches(items)}
                return {"string": "a list of strings", "object": "a list of tables"}.get(str(kinds.pop()), "a list")
            case {"type": "object", "additionalProperties": {"type": "string", **rest}} if "enum" not in rest:
                return 'a table of strings, such as { NAME = "value" }'
        names = {"string": "a string", "number": "a number", "boolean": "true or false", "object": "a table"}
        return names.get(str(node.get("type")), "a list")


@cache
def schema_of(model: type[BaseModel]) -> Schema:
    """Return the JSON schema of a model."""
    return Schema(model.model_json_schema())


def _child(node: Node, step: str | int) -> Node:
    if isinstance(step, int):
        return node.get("items") or {}
    found = node.get("properties", {}).get(step) or node.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def _number(node: Node) -> str:
    """Return the range of a number in words."""
    name = "a whole number" if node.get("type") == "integer" else "a number"
    if "exclusiveMinimum" in node:
        return f"{name} above {node['exclusiveMinimum']}"
    upper = f" to {node['maximum']}" if node.get("maximum", LARGEST) < LARGEST else ""
    return f"{name} from {node.get('minimum', 0)}{upper}"
