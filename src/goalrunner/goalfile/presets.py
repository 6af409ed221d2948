"""An agent of the user's own, `[agents.NAME]`, as it is written: its keys, what may stand in braces. Starts none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from goalrunner.goalfile.problems import SURE, Spot, kind, listed, nearest, quoted
from goalrunner.goalfile.readers import WRONG, Reader, each, line, one_of, string, text
from goalrunner.goalfile.stream_rules import RULE_KEYS, rules
from goalrunner.goalfile.strings import VARIABLE
from goalrunner.goalfile.tables import hints, read_keys, variables

RESERVED = ("chat", "command", "acp")
"""Agents that are no presets."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

IN_COMMANDS = ("prompt", "prompt_file", "session", "workspace", "model", "args")
_WHOLE = ("model", "args")
"""Of these: what stands for any number of words, and so is a word of its own."""

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
    read = read_keys(value, spot, PRESET_KEYS, _ELSEWHERE, {})
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
        if isinstance(path, str) and not _is_below_home(path):
            spot.item(index).wrong(f'{quoted(path)} must be a path below HOME, such as ".my-agent/login.json"')
    return read


def _home_files(value: object, spot: Spot) -> object:
    """Files below HOME, and what each holds."""
    if not isinstance(value, Mapping):
        spot.wrong(f'must be a table of files, such as {{ ".my-agent/settings.json" = "{{}}" }}, not {kind(value)}')
        return WRONG
    for path in value:
        if not (str(path).isprintable() and _is_below_home(str(path))):
            told = f'{quoted(str(path))} must be the path of a file below HOME, such as ".my-agent/settings.json"'
            spot.item(path).wrong_key(told)
    return {path: string(content, spot.item(path)) for path, content in value.items()}


def _is_below_home(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and path[0] not in "/~" and ".." not in parts


def _reports(value: object, spot: Spot) -> object:
    """What an agent reports of each turn over ACP, and what each number is of."""
    if not isinstance(value, Mapping):
        spot.wrong(f'must be a table, such as {{ tokens = "turn", cost_usd = "session" }}, not {kind(value)}')
        return WRONG
    return read_keys(value, spot, dict.fromkeys(("tokens", "cost_usd"), one_of("turn", "session")), {}, {})


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
    if "acp_reports" in table and "acp" not in table:
        spot.item("acp_reports").wrong_key("acp_reports is of an agent that speaks ACP; write acp = [...], its command")
    commands = {key for key in ("argv", "resume", "acp") if key in table}
    if "model" in table and not any("{model}" in _texts(table[key]) for key in commands):
        spot.item("model").wrong_key("model is never used; write {model} where its words go, in argv, resume or acp")


def _check_rules(table: Mapping[str, object], spot: Spot) -> None:
    found = table.get("rules")
    if not isinstance(found, list | tuple):
        found = ()
    if found and table.get("stream", "text") == "text":
        spot.item("rules").wrong_key('rules are for lines of JSON; write stream = "json", or remove them')
    if "session_after" in table and table.get("stream", "text") == "text":
        spot.item("session_after").wrong_key('session_after is for a line between lines of JSON; write stream = "json"')
    kinds = {rule.get("kind") for rule in found if isinstance(rule, Mapping)}
    if "{session}" in _texts(table.get("resume")) and "session" not in kinds and "session_after" not in table:
        told = 'resume names {session}, which no rule finds; add one of kind "session", or session_after = "..."'
        spot.item("resume").wrong_key(told)


def _check_server(table: Mapping[str, object], spot: Spot) -> None:
    pointing = [key for key in ("server", "server_args", "server_files") if key in table]
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

PRESET_KEYS: dict[str, Reader] = {
    "argv": words,
    "resume": words,
    "acp": words,
    "acp_reports": _reports,
    "model": _holding("name"),
    "env": variables,
    "asking": variables,
    "helpers": each(line),
    "jailed_env": variables,
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
    "server_files": _home_files,
    "wire": one_of(*WIRES),
    "stream": one_of("json", "text"),
    "session_after": text,
    "rules": rules,
}
"""The keys of a preset."""

_ELSEWHERE = dict.fromkeys(RULE_KEYS, "in one of its rules, [[rules]]") | {
    "command": "in argv, as a list of words",
    "args": "in argv, and in [agent] where only this goal wants them",
}
