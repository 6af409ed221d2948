"""Every key that a goal file may hold, and those that are not built yet."""

from __future__ import annotations

from collections.abc import Mapping

from goalrunner.goalfile.presets import preset_tables
from goalrunner.goalfile.problems import Spot, kind
from goalrunner.goalfile.readers import (
    WRONG,
    Reader,
    count,
    count_limit,
    dollars_limit,
    duration_limit,
    each,
    line,
    needed,
    one_of,
    share,
    string,
    text,
    texts,
    truth,
    whole,
)
from goalrunner.goalfile.strings import address, command, folder, model, secret, template, variable_name
from goalrunner.goalfile.tables import VALIDATOR_KEYS, commands, parameters, read_keys, validator_tables, variables

SECTIONS: dict[str, dict[str, Reader]] = {
    "agent": {
        "use": line,
        "command": command,
        "args": each(string),
        "protocol": one_of("command", "acp"),
        "model": model,
        "max_steps": count,
        "system_prompt": text,
        "params": parameters,
        "env": variables,
        "api_base": address,
        "api_key_env": variable_name,
    },
    "judge": {
        "model": model,
        "system_prompt": text,
        "minimum_score": share,
        "require": one_of("any", "runner"),
        "max_tokens": whole(at_least=2_000, at_most=10_000_000),
        "params": parameters,
        "api_base": address,
        "api_key_env": variable_name,
    },
    "budget": {
        "tokens": count_limit,
        "cost_usd": dollars_limit,
        "allow_unenforced": each(one_of("tokens", "cost_usd")),
    },
    "workspace": {
        "path": folder,
        "protect": texts,
        "editable": texts,
        "allow": texts,
        "outputs": texts,
        "dependencies": texts,
        "setup": text,
        "check": one_of("overlay", "in-place", "checkout"),
        "sandbox": one_of("auto", "bwrap", "none"),
        "network": truth,
    },
    "approvals": {
        "require": each(one_of("complete", "shell", "write", "network")),
        "commands": texts,
        "expires": duration_limit,
        "on_deny": one_of("stop", "continue"),
    },
    "redact": {"extra": each(secret), "allow": texts},
    "memory": {"promote": each(one_of("event", "fact", "preference", "policy_reference")), "recall": truth},
}
"""The tables of a goal file and their keys."""

_CLEAN_PROOF = (
    "was removed: validators run in the check environment in each round; remove it, or write "
    '[workspace] check = "in-place" to run them in the workspace itself'
)

UNAVAILABLE: dict[str, dict[str, str]] = {
    "": {"critic": "is not available in this version; remove it", "clean_proof": _CLEAN_PROOF},
    "workspace": {
        "link": "was removed: validators see .venv, node_modules and other ignored folders as they are; remove it, or "
        'name folders of installed packages with dependencies = ["..."]',
        "clean_proof": _CLEAN_PROOF,
    },
}
"""Keys that this version does not have, by table, with what to write instead; rejected by name, never ignored."""

SHORT_TABLES = {"agent": "use", "judge": "model"}
"""Tables that may be written as one string, and the key which that string stands for."""

SHORT_KEYS = {"model": ("agent", "model"), "validator": ("validators",)}
"""Keys that are short for one in a table."""


def _section(name: str) -> Reader:
    """The reader of a table, or of the string that stands for it."""

    def read(value: object, spot: Spot) -> object:
        short = SHORT_TABLES.get(name)
        if short and isinstance(value, str):
            found = SECTIONS[name][short](value, spot)
            return WRONG if found is WRONG else {short: found}
        if not isinstance(value, Mapping):
            wanted = "a string or a table" if short else "a table"
            spot.wrong(f"must be {wanted}, not {kind(value)}")
            return WRONG
        elsewhere = {key: place for key, place in _homes().items() if key not in SECTIONS[name]}
        return read_keys(value, spot, SECTIONS[name], elsewhere, UNAVAILABLE.get(name, {}))

    return read


KEYS: dict[str, Reader] = {
    "objective": needed,
    "validator": commands,
    "judge": _section("judge"),
    "model": model,
    "baseline": one_of("any", "red"),
    "stall_rounds": count_limit,
    "max_iterations": count_limit,
    "timeout": duration_limit,
    "success_criteria": texts,
    "constraints": texts,
    "owner": string,
    "risk_class": one_of("low", "medium", "high", "critical"),
    "deliverable": one_of("workspace", "response"),
    "preserve_context": truth,
    "resume_prompt": template,
    "agent": _section("agent"),
    "budget": _section("budget"),
    "workspace": _section("workspace"),
    "approvals": _section("approvals"),
    "redact": _section("redact"),
    "memory": _section("memory"),
    "validators": validator_tables,
    "agents": preset_tables,
}
"""The keys at the top of a goal file."""


def read_top(table: Mapping[str, object], spot: Spot) -> dict[str, object]:
    """Read a whole goal file's table."""
    elsewhere = {key: place for key, place in _homes().items() if key not in KEYS}
    return read_keys(table, spot, KEYS, elsewhere, UNAVAILABLE[""])


def _homes() -> dict[str, str]:
    """Where each key belongs, in words; a key of the top is looked for there first."""
    tables: dict[str, list[str]] = {}
    for name, readers in (
        *((f"[{name}]", readers) for name, readers in SECTIONS.items()),
        ("[[validators]]", VALIDATOR_KEYS),
    ):
        for key in readers:
            tables.setdefault(key, []).append(name)
    homes = {key: f"in {' or '.join(names)}" for key, names in tables.items()}
    return homes | dict.fromkeys(KEYS, "at the top of the file, before the first table")
