"""Rules of a preset, `[[rules]]`, as they are written: where in a line of an agent's output something stands. Reads no line."""

from __future__ import annotations

from collections.abc import Mapping

from goalrunner.goalfile.problems import Spot, kind, listed, nearest, quoted
from goalrunner.goalfile.readers import WRONG, Reader, each, one_of, text, truth
from goalrunner.goalfile.tables import read_keys

FIELDS: dict[str, tuple[str, ...]] = {
    "session": ("id",),
    "text": ("text",),
    "delta": ("text",),
    "call": ("id", "tool", "command"),
    "result": ("id", "output", "exit_code", "failed", "tool", "command"),
    "usage": ("input", "output", "cached", "cost"),
    "error": ("message",),
}
"""By kind of a rule: what it can find."""

_NEEDED = {"session": "id", "text": "text", "delta": "text", "error": "message"}
"""By kind of a rule: the one thing without which it finds nothing."""

_FLAGS = {"cumulative": "usage", "ends": "error"}
"""What is true or false of a rule, and the kind of rules that it is for."""


def _conditions(value: object, spot: Spot) -> object:
    """Paths in a line of output, and the value that each must have."""
    if not isinstance(value, Mapping):
        spot.wrong(f'must be a table of paths and values, such as {{ type = "text" }}, not {kind(value)}')
        return WRONG
    for path, wanted in value.items():
        if isinstance(wanted, list) and wanted and all(isinstance(item, str) for item in wanted):
            continue
        if not isinstance(wanted, str | bool | int):
            spot.item(path).wrong(
                f"must be a string, a whole number, true, false, or a list of strings, not {kind(wanted)}"
            )
    return dict(value)


def _fields(value: object, spot: Spot) -> object:
    """What is found, and the paths that are looked at for it, the first one first."""
    if not isinstance(value, Mapping):
        spot.wrong(f'must be a table of names and paths, such as {{ text = ["message.text"] }}, not {kind(value)}')
        return WRONG
    return {
        name: [text(paths, spot.item(name))] if isinstance(paths, str) else each(text)(paths, spot.item(name))
        for name, paths in value.items()
    }


def rules(value: object, spot: Spot) -> object:
    """The list of them."""
    if not isinstance(value, list | tuple):
        spot.wrong_key(f"rules must be a list of tables, not {kind(value)}; write [[{spot.label}]]")
        return WRONG
    return [_rule(item, spot.item(index)) for index, item in enumerate(value)]


def _rule(value: object, spot: Spot) -> object:
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table, not {kind(value)}")
        return WRONG
    read = read_keys(value, spot, RULE_KEYS, {}, {})
    known = read.get("kind")
    if "kind" not in value and not spot.problems.excuses((*spot.path, "kind")):
        spot.wrong_key(f"a rule needs a kind: {listed(FIELDS)}")
    if isinstance(known, str):
        _check_fields(known, value, spot)
        for flag, only in _FLAGS.items():
            if value.get(flag) and known != only:
                spot.item(flag).wrong_key(f'{flag} is for rules of kind "{only}" alone; remove it')
    if "where" in value and "each" not in value:
        spot.item("where").wrong_key('where looks at the items of a list; name the list: each = "path.of.it"')
    return read


def _check_fields(known: str, rule: Mapping[str, object], spot: Spot) -> None:
    fields, valid = rule.get("fields", {}), FIELDS[known]
    here = spot.item("fields")
    if not isinstance(fields, Mapping) or spot.problems.excuses((*spot.path, "fields")):
        return
    for name in fields:
        if name not in valid:
            near = nearest(str(name), valid)
            guess = f"; did you mean {quoted(near)}?" if near else ";"
            here.item(name).wrong_key(
                f'a rule of kind "{known}" finds no {quoted(str(name))}{guess} valid: {listed(valid)}'
            )
    needed = _NEEDED.get(known)
    if (needed and needed not in fields) or not fields:
        example = needed or valid[0]
        if not any(name not in valid for name in fields):
            spot.wrong_key(f'a rule of kind "{known}" needs fields = {{ {example} = ["path.of.it"] }}')


RULE_KEYS: dict[str, Reader] = {
    "kind": one_of(*FIELDS),
    "when": _conditions,
    "each": text,
    "where": _conditions,
    "fields": _fields,
    **dict.fromkeys(_FLAGS, truth),
}
"""The keys of a rule."""
