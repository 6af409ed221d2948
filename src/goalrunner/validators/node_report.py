"""The reports of node:test, through a reporter that is added to NODE_OPTIONS."""

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
# Explicit reporters replace the one that node itself would choose: this one chooses
# like node.
_VISIBLE = """import { spec, tap } from 'node:test/reporters';
const [major] = process.versions.node.split('.');
export default process.stdout.isTTY || Number(major) >= 23 ? spec : tap;
"""
"""The reporter that node itself would choose: explicit reporters replace it."""
_STARTS = re.compile(
    r"\bnode\b.*\s--test(?![\w-])"
    r"|\b(?:npm|pnpm|yarn)\b.*\s"
    r"(?:-w|-ws|-r|-F|--workspaces?|--recursive|--filter|workspaces?)\b"
    r"|\b(?:turbo|lerna|nx)\b.*\btest"
)
"""Lines that start node's test runner.

Or scripts in packages of a workspace, which may start it.
"""
# A reporter of the project may write what the project reads.
_CHOOSES = re.compile(r"--test-reporter|NODE_OPTIONS\s*=")
# Old versions of node, and sandboxes that do not show the reporter's folder.
_REFUSED = re.compile(
    r"--test-reporter\S* is not allowed in NODE_OPTIONS"
    r"|The argument '--test-reporter' must match"
    r"|(?:ERR_MODULE_NOT_FOUND|Cannot find (?:module|package)).*/reporter\.mjs"
)


def starts_node_tests(texts: str) -> bool:
    """Return whether node's own test runner is started.

    Neither a line nor its script may choose a reporter.
    """
    return _STARTS.search(texts) is not None and _CHOOSES.search(texts) is None


def with_reporter(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Write the reporters into an existing folder.

    Return the environment in which node uses them. Raise OSError.
    """
    url = folder.as_uri()
    # Newer versions of node flush the file to the disk, which /dev/null refuses.
    destination = re.sub(r'([\\"])', r"\\\1", str(folder / "printed"))
    options = (
        f"--test-reporter={url}/visible.mjs --test-reporter-destination=stdout "
        f"--test-reporter={url}/reporter.mjs "
        f'--test-reporter-destination="{destination}"'
    )
    source = Path(__file__).with_name("node_reporter.mjs").read_text(encoding="utf-8")
    source = source.replace("'OPTIONS'", repr(options))
    (folder / "reporter.mjs").write_text(source, encoding="utf-8")
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
    names = TestNames(whole=len(begun) == len(ended))
    for path in ended:
        # The check may write into the folder, too.
        if not path.is_file() or path.stat().st_size > LARGEST:
            return CollectedTests(whole=False)
        try:
            content = _File.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            return CollectedTests(whole=False)
        for row in content.rows:
            _add(names, row, workspace)
    return names.collected


def _add(tests: TestNames, row: _Row, workspace: Path) -> None:
    """Add a test, or a file that node counts as one."""
    file, names = row.file, row.names
    if _names_file(row):
        file, names = file or names[0], names[1:]
    path = path_in_workspace(file, workspace, workspace) if file else ""
    if not path:
        tests.whole = False
        return
    if not names:
        # The file fails on its own, or because of its tests, which have rows.
        if row.cause != "subtestsFailed":
            tests.add(path, row.ending)
            tests.whole = tests.whole and row.ending != "failed"
        return
    # A suite ends as its tests do, if it does not fail outside of them.
    is_of_its_tests = row.cause in ("", "subtestsFailed") and row.ending != "skipped"
    if not (row.suite and is_of_its_tests):
        tests.add(f"{path}::{' > '.join(names)}", row.ending)


def _names_file(row: _Row) -> bool:
    """Return whether the first name of a row is its file.

    Node counts a file as a test if it has none, or if it fails outside of its tests.
    """
    first_name = row.names[0]
    if first_name == row.file or (not row.file and first_name.startswith("/")):
        return True
    return len(row.names) == 1 and row.file.endswith(f"/{first_name}")
