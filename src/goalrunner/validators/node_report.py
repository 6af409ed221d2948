"""What node:test tells of a run through a reporter of its own, which is added to NODE_OPTIONS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from goalrunner.core.field_types import Frozen
from goalrunner.core.verdict import CollectedTests, Ending
from goalrunner.validators.collected_tests import TestNames, path_in_workspace

LARGEST = 64_000_000
"""Bytes of one report."""
_VISIBLE = """import { spec, tap } from 'node:test/reporters';
const [major] = process.versions.node.split('.');
export default process.stdout.isTTY || Number(major) >= 23 ? spec : tap;
"""
"""The reporter that node itself would choose: explicit reporters replace it."""
_STARTS = re.compile(
    r"\bnode\b.*\s--test(?![\w-])"
    r"|\b(?:npm|pnpm|yarn)\b.*\s(?:-w|-ws|-r|-F|--workspaces?|--recursive|--filter|workspaces?)\b"
    r"|\b(?:turbo|lerna|nx)\b.*\btest"
)
"""Lines that start node's test runner, or scripts in packages of a workspace, which may."""
_CHOOSES = re.compile(r"--test-reporter|NODE_OPTIONS\s*=")
_REFUSED = re.compile(
    r"--test-reporter\S* is not allowed in NODE_OPTIONS|The argument '--test-reporter' must match"
    r"|(?:ERR_MODULE_NOT_FOUND|Cannot find (?:module|package)).*/reporter\.mjs"
)


def starts_node_tests(texts: str) -> bool:
    """Return whether node's own test runner is started, and neither a line nor its script chooses a reporter."""
    return _STARTS.search(texts) is not None and _CHOOSES.search(texts) is None


def with_reporter(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Write the reporters into an existing folder; return the environment in which node uses them. Raise OSError."""
    url = folder.as_uri()
    # Newer versions of node flush the file to the disk, which /dev/null refuses.
    destination = re.sub(r'([\\"])', r"\\\1", str(folder / "printed"))
    options = (
        f"--test-reporter={url}/visible.mjs --test-reporter-destination=stdout "
        f'--test-reporter={url}/reporter.mjs --test-reporter-destination="{destination}"'
    )
    source = Path(__file__).with_name("node_reporter.mjs").read_text(encoding="utf-8")
    (folder / "reporter.mjs").write_text(
        source.replace("'OPTIONS'", repr(options)), encoding="utf-8"
    )
    (folder / "visible.mjs").write_text(_VISIBLE, encoding="utf-8")
    return {**env, "NODE_OPTIONS": f"{env.get('NODE_OPTIONS', '')} {options}".strip()}


def refuses_reporter(output: str) -> bool:
    """Return whether node did not start its tests because of the reporter."""
    return _REFUSED.search(output) is not None


class _Row(Frozen):
    file: str
    names: tuple[str, ...]
    ending: Ending
    suite: bool
    cause: str


class _File(Frozen):
    rows: tuple[_Row, ...]


def read_node_reports(folder: Path, workspace: Path) -> CollectedTests | None:
    """Return the tests in the reports of a folder; None if no process began one."""
    begun, ended = sorted(folder.glob("*.begun")), sorted(folder.glob("*.node"))
    if not begun:
        return None
    found = TestNames(whole=len(begun) == len(ended))
    for path in ended:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return CollectedTests(whole=False)
        try:
            content = _File.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            return CollectedTests(whole=False)
        for row in content.rows:
            _add(found, row, workspace)
    return found.collected


def _add(found: TestNames, row: _Row, workspace: Path) -> None:
    file, names = row.file, row.names
    is_file = names[0] == file or (not file and names[0].startswith("/"))
    if is_file or (len(names) == 1 and file.endswith(f"/{names[0]}")):
        # Node counts a file as a test if it has none, or if it fails outside of its tests.
        file, names = file or names[0], names[1:]
    path = path_in_workspace(file, workspace, workspace) if file else ""
    if not path:
        found.whole = False
    elif names:
        is_of_its_tests = (
            row.suite
            and row.ending != "skipped"
            and row.cause in ("", "subtestsFailed")
        )
        if not is_of_its_tests:
            found.add(f"{path}::{' > '.join(names)}", row.ending)
    elif row.cause != "subtestsFailed":
        found.add(path, row.ending)
        found.whole = found.whole and row.ending != "failed"
