"""The layers of a goal: file, environment and options, with the names of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from goalrunner.goalfile.keys import KEYS, SECTIONS, SHORT_KEYS, SHORT_TABLES, read_top
from goalrunner.goalfile.positions import Key
from goalrunner.goalfile.problems import Problems, Source, Spot, nearest, quoted
from goalrunner.goalfile.readers import WRONG, Reader
from goalrunner.goalfile.tables import commands


@dataclass
class Layer:
    """Values that held, each under its long key, and the spot where it was written."""

    values: dict[Key, object] = field(default_factory=dict)
    spots: dict[Key, Spot] = field(default_factory=dict)

    def put(self, key: Key, value: object, spot: Spot) -> None:
        """Note one value."""
        self.values[key] = value
        self.spots[key] = spot

    def over(self, lower: Layer) -> Layer:
        """Both, with this one's values before the lower one's."""
        return Layer(values={**lower.values, **self.values}, spots={**lower.spots, **self.spots})


def file_layer(table: Mapping[str, object], source: Source, problems: Problems) -> Layer:
    """What a goal file's table says."""
    top = Spot(source, problems)
    layer = Layer()
    for key, value in read_top(table, top).items():
        spot = top.item(key)
        if key in SECTIONS and isinstance(value, dict):
            short = isinstance(table[key], str)
            layer.spots[key,] = spot
            for name, item in value.items():
                layer.put((key, name), item, spot if short else spot.item(name))
        else:
            layer.put(SHORT_KEYS.get(key, (key,)), value, spot)
    _refuse_both_forms(table, top)
    return layer


def _refuse_both_forms(table: Mapping[str, object], top: Spot) -> None:
    agent = table.get("agent")
    if "model" in table and isinstance(agent, Mapping) and "model" in agent:
        top.item("model").wrong_key(
            '"model" is short for model in [agent], which is there as well; keep one of the two'
        )
    if "validator" in table and "validators" in table:
        top.item("validator").wrong_key(
            '"validator" is short for one [[validators]], and there are such as well; '
            "write it as [[validators]] with run, or keep it alone"
        )


def named_layer(entries: Mapping[str, object], source: Source, problems: Problems) -> Layer:
    """What options or variables say, by dotted key: `{"agent.model": ..., "validators": ["pytest -q"]}`."""
    layer = Layer()
    for name, value in entries.items():
        path = tuple(name.split("."))
        spot = Spot(source, problems, path)
        reader = _reader_of(path)
        if reader is None:
            near = nearest(name, [*KEYS, *(f"{table}.{key}" for table, keys in SECTIONS.items() for key in keys)])
            guess = f"; did you mean {quoted(near)}?" if near else ""
            spot.wrong_key(f"unknown key {quoted(name)}{guess}")
            continue
        read = reader(value, spot)
        if read is not WRONG:
            key: Key = (path[0], SHORT_TABLES[name]) if name in SHORT_TABLES else SHORT_KEYS.get(name, path)
            layer.put(key, read, spot)
    return layer


def _reader_of(path: tuple[str, ...]) -> Reader | None:
    match path:
        case ("validators",) | ("validator",):
            return commands
        case (table,) if table in SHORT_TABLES:
            return SECTIONS[table][SHORT_TABLES[table]]
        case (key,) if key not in SECTIONS:
            return KEYS.get(key)
        case (table, key):
            return SECTIONS.get(table, {}).get(key)
        case _:
            return None


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
"""Options that are not simply the key: `timeout` is `--timeout`, `risk_class` is `--risk-class`."""

AGENT_VARIABLES = {"GOAL_AGENT": "agent.use"}

VARIABLES = {**AGENT_VARIABLES, "GOAL_MODEL": "agent.model", "GOAL_JUDGE": "judge.model"}
"""Environment variables that come before the file."""

FALLBACK_VARIABLES = {"LLM_MODEL": "agent.model"}
"""Environment variables that count only where nothing else names a value."""

CHAT_VARIABLES = frozenset({"GOAL_MODEL", "LLM_MODEL"})
"""Those that name a model as LiteLLM does, which an external agent would not understand: they are not for it."""


def option_of(key: str) -> str:
    """The option that sets a key, which is dotted: `max_iterations` gives `--max-iterations`."""
    return OPTIONS.get(key, "--" + key.replace(".", "-").replace("_", "-"))
