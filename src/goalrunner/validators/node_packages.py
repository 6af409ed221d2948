"""Packages of Node.js that a project declares, but that are not installed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from goalrunner.core.shell_programs import programs
from goalrunner.core.tools import PACKAGE_MANAGERS
from goalrunner.core.verdict import ValidatorResult
from goalrunner.validators.spec_validator import CheckPlace

_PROGRAM = re.compile(
    r"^\S*sh: (?:line )?(?:\d+: )?(\S+): (?:command )?not found$", re.MULTILINE
)
_MODULE = re.compile(r"Cannot find (?:package|module) '((?:@[\w.-]+/)?[\w.-]+)")
_INSTALLED = ("node_modules", ".pnp.cjs")
_TABLES = ("dependencies", "devDependencies")


def uninstalled_packages(result: ValidatorResult, place: CheckPlace) -> str:
    """Return that the packages of a project are not installed, and what helps.

    Empty if they are, or if nothing shows that the validator needs them: a script of
    package.json that is not found, or a declared package that cannot be imported.
    """
    if any((folder / name).exists() for folder in _above(place) for name in _INSTALLED):
        return ""
    declared = _declared(place.folder)
    tools = [program.name for program in programs(result.command)]
    tool = next((name for name in tools if name in PACKAGE_MANAGERS), "")
    if not declared or not tool:
        return ""
    program = _PROGRAM.search(result.feedback)
    if program and result.exit_code == 127:
        return f"{program[1]}: not found; install the packages first: {tool} install"
    for module in _MODULE.findall(result.feedback):
        if module in declared:
            return f"no package {module}; install the packages first: {tool} install"
    return ""


def _above(place: CheckPlace) -> Iterator[Path]:
    """Yield the folders in which Node.js looks for packages."""
    yield place.folder
    yield from place.folder.parents


def _declared(folder: Path) -> frozenset[str]:
    """Return the packages that package.json names; none if it cannot be read."""
    try:
        manifest = json.loads((folder / "package.json").read_text("utf-8"))
    except (OSError, ValueError):
        return frozenset()
    if not isinstance(manifest, dict):
        return frozenset()
    tables = [manifest.get(name) for name in _TABLES]
    return frozenset(
        name for table in tables if isinstance(table, dict) for name in table
    )
