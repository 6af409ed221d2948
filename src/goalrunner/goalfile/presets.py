"""An agent of the user's own, `[agents.NAME]`, as it is written: its keys, its rules, what may stand in braces. Starts none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from goalrunner.goalfile.problems import Spot
from goalrunner.goalfile.readers import WRONG, Reader, each, line, one_of, string, text, truth
from goalrunner.goalfile.strings import VARIABLE
from goalrunner.goalfile.tables import hints, read_keys, variables
from goalrunner.goalfile.wording import SURE, kind, listed, nearest, quoted

RESERVED = ("chat", "command", "acp")
"""Agents that are no presets."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

IN_COMMANDS = ("prompt", "prompt_file", "session", "workspace", "model", "args")
_WHOLE = ("model", "args")
"""Of these: what stands for any number of words, and so is a word of its own."""

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

_BRACED = re.compile(r"\{([A-Za-z_]+)\}")


def preset_tables(value: object, spot: Spot) -> object:
    """`[agents]`: presets by name."""
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table of agents, not {kind(value)}; write [agents.NAME]")
        return WRONG
    read: dict[str, object] = {}
    for name, table in value.items():
        here = spot.item(name)
        if str(name) in RESERVED:
            here.wrong_key(f"{quoted(str(name))} is built in and cannot be described anew; give the agent another name")
        elif not NAME.fullmatch(str(name)):
            here.wrong_key(
                f"{quoted(str(name))} is no name of an agent; write letters, digits, dots, dashes and underscores"
            )
        else:
            found = preset(table, here)
            if found is not WRONG:
                read[name] = found
    return read


def preset(value: object, spot: Spot) -> object:
    """One preset."""
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table, not {kind(value)}; write argv = [...] or acp = [...] in it")
        return WRONG
    read = read_keys(value, spot, PRESET_KEYS, _ELSEWHERE, frozenset())
    _check_commands(value, spot)
    _check_rules(value, spot)
    _check_server(value, spot)
    return read


def words(value: object, spot: Spot) -> object:
    """The words of a command, the program first; one word alone is a line for sh -c. In braces stands what a round puts there."""
    read = _listed(value, spot)
    if not isinstance(read, list):
        return read
    if not read or not str(read[0]).strip():
        spot.wrong('is empty; write a list of words, the program first: ["my-agent", "--json"]')
        return WRONG
    for index, word in enumerate(read):
        if isinstance(word, str):
            _check_braces(word, spot.item(index), is_line=len(read) == 1)
    return read


def _check_braces(word: str, spot: Spot, *, is_line: bool) -> None:
    """What stands in braces is what a round puts there, or plainly something else."""
    for name in _BRACED.findall(word):
        alone = word == f"{{{name}}}"
        if name in _WHOLE and not alone and not is_line:
            spot.wrong(f"{quoted(word)}: {{{name}}} stands for several words; write it as a word of its own")
        elif name not in IN_COMMANDS and (alone or nearest(name, IN_COMMANDS, SURE)):
            near = nearest(name, IN_COMMANDS)
            guess = f"; did you mean {{{near}}}?" if near else ";"
            valid = ", ".join(f"{{{known}}}" for known in IN_COMMANDS)
            spot.wrong(f"names {{{name}}}, which does not exist{guess} valid: {valid}")


def _listed(value: object, spot: Spot) -> object:
    if isinstance(value, str):
        spot.wrong('must be a list of words: ["my-agent", "--json"], not a string')
        return WRONG
    return each(string)(value, spot)


def _holding(name: str) -> Reader:
    """A list of words, one of which holds a name in braces."""

    def read(value: object, spot: Spot) -> object:
        found = _listed(value, spot)
        if isinstance(found, list) and not any(f"{{{name}}}" in str(word) for word in found):
            spot.wrong(f"needs {{{name}}} in one of its words")
            return WRONG
        return found

    return read


def _variable_names(value: object, spot: Spot) -> object:
    """Names of environment variables. A wrong one is not shown: it may be the key itself."""
    read = each(text)(value, spot)
    for index, name in enumerate(read if isinstance(read, list) else ()):
        if isinstance(name, str) and not VARIABLE.fullmatch(name):
            spot.item(index).wrong(
                'must be the name of an environment variable, such as "MY_AGENT_KEY", not the key itself'
            )
    return read


def _home_paths(value: object, spot: Spot) -> object:
    """Paths below HOME."""
    read = each(line)(value, spot)
    for index, path in enumerate(read if isinstance(read, list) else ()):
        if isinstance(path, str) and (path[0] in "/~" or ".." in PurePosixPath(path).parts):
            spot.item(index).wrong(f'{quoted(path)} must be a path below HOME, such as ".my-agent/login.json"')
    return read


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


def _rules(value: object, spot: Spot) -> object:
    if not isinstance(value, list | tuple):
        spot.wrong_key(f"rules must be a list of tables, not {kind(value)}; write [[{spot.label}]]")
        return WRONG
    return [_rule(item, spot.item(index)) for index, item in enumerate(value)]


def _rule(value: object, spot: Spot) -> object:
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table, not {kind(value)}")
        return WRONG
    read = read_keys(value, spot, RULE_KEYS, {}, frozenset())
    known = read.get("kind")
    if "kind" not in value and not spot.problems.excuses((*spot.path, "kind")):
        spot.wrong_key(f"a rule needs a kind: {listed(FIELDS)}")
    if isinstance(known, str):
        _check_fields(known, value, spot)
        if value.get("cumulative") and known != "usage":
            spot.item("cumulative").wrong_key('cumulative is for rules of kind "usage" alone; remove it')
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


def _check_commands(table: Mapping[str, object], spot: Spot) -> None:
    """The commands fit together. What cannot be read has been said."""
    if not {"argv", "acp"} & table.keys():
        if not spot.problems.excuses((*spot.path, "argv"), (*spot.path, "acp")):
            spot.wrong_key(f"{_named(spot)} has no command; write argv = [...], or acp = [...] where it speaks ACP")
        return
    if "resume" in table and "argv" not in table:
        spot.item("resume").wrong_key(
            "resume is the command of a later round; write argv = [...], the one of the first"
        )
    for key in ("argv", "acp"):
        if "{session}" in _texts(table.get(key)):
            spot.item(key).wrong_key(f"{key} begins a session and can name none; {{session}} is for resume")
    commands = {key for key in ("argv", "resume", "acp") if key in table}
    if "model" in table and not any("{model}" in _texts(table[key]) for key in commands):
        spot.item("model").wrong_key("model is never used; write {model} where its words go, in argv, resume or acp")


def _check_rules(table: Mapping[str, object], spot: Spot) -> None:
    rules = table.get("rules")
    if not isinstance(rules, list | tuple):
        rules = ()
    if rules and table.get("stream", "text") == "text":
        spot.item("rules").wrong_key('rules are for lines of JSON; write stream = "json", or remove them')
    kinds = {rule.get("kind") for rule in rules if isinstance(rule, Mapping)}
    if "{session}" in _texts(table.get("resume")) and "session" not in kinds:
        spot.item("resume").wrong_key('resume names {session}, which no rule finds; add one of kind "session"')


def _check_server(table: Mapping[str, object], spot: Spot) -> None:
    pointing = [key for key in ("server", "server_args") if key in table]
    if pointing and "wire" not in table:
        spot.item(pointing[0]).wrong_key(f"{pointing[0]} needs wire, which says what is spoken there: {listed(WIRES)}")
    elif table.get("wire") and not pointing:
        spot.item("wire").wrong_key('wire needs server = { NAME = "{base_url}" } or server_args = ["{base_url}"]')


def _named(spot: Spot) -> str:
    return f"[{spot.label}]" if spot.path else "the agent"


def _texts(value: object) -> str:
    """All words as one text, to look for what stands in braces."""
    return "\0".join(str(word) for word in value) if isinstance(value, list | tuple) else ""


WIRES = ("openai", "responses", "anthropic", "gemini")

RULE_KEYS: dict[str, Reader] = {
    "kind": one_of(*FIELDS),
    "when": _conditions,
    "each": text,
    "where": _conditions,
    "fields": _fields,
    "cumulative": truth,
}

PRESET_KEYS: dict[str, Reader] = {
    "argv": words,
    "resume": words,
    "acp": words,
    "model": _holding("name"),
    "env": variables,
    "asking": variables,
    "keys": _variable_names,
    "login": _home_paths,
    "home": _home_paths,
    "version": words,
    "install": line,
    "acp_install": line,
    "sign_in": line,
    "denied": each(text),
    "hints": hints,
    "server": variables,
    "server_args": _listed,
    "wire": one_of(*WIRES),
    "stream": one_of("json", "text"),
    "rules": _rules,
}
"""The keys of a preset."""

_ELSEWHERE = dict.fromkeys(RULE_KEYS, "in one of its rules, [[rules]]") | {
    "command": "in argv, as a list of words",
    "args": "in argv, and in [agent] where only this goal wants them",
}
