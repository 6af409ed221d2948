"""A real node:test, and what it reports."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.node_report import starts_node_tests
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed"
)

TESTS = """
const { test, describe, it, before } = require('node:test');
const assert = require('node:assert');
test('passes', () => { assert.equal(process.env.NODE_OPTIONS, undefined); });
test('reads a.js', () => {});
test('fails', () => { assert.equal(1, 2); });
test('left out', { skip: true }, () => {});
test('to do', { todo: true }, () => { throw new Error('not yet'); });
describe('group', () => { it('has one', () => {}); });
describe.skip('left', () => { it('never', () => {}); });
describe('broken', () => { before(() => { throw new Error('no'); }); it('is cancelled', () => {}); });
test('parent', async (t) => { await t.test('child', () => {}); });
"""
ENDINGS = {
    "passes": "passed",
    "reads a.js": "passed",
    "fails": "failed",
    "left out": "skipped",
    "to do": "xfailed",
    "group > has one": "passed",
    "left": "skipped",
    "broken": "failed",
    "broken > is cancelled": "failed",
    "parent > child": "passed",
    "parent": "passed",
}
GREEN = "require('node:test')('adds', () => {});\n"


async def check(
    tmp_path: Path, files: dict[str, str], line: str, **env: str
) -> tuple[ValidatorResult, str]:
    for name, text in files.items():
        path = tmp_path / "my ws" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    spec = ValidatorSpec(run=line)
    around = {"PATH": os.environ["PATH"], **env}
    scratch = tmp_path / "my scratch"
    scratch.mkdir(exist_ok=True)
    validator = ShellValidator(spec, ProcessLauncher(), around)
    result, output = await validator.validate(validation(tmp_path / "my ws", scratch))
    assert {path.suffix for path in scratch.iterdir()} == {".out"}, (
        "nothing else is left"
    )
    return result, output.read_text() if output else ""


async def test_each_test_has_an_ending(tmp_path: Path) -> None:
    result, output = await check(tmp_path, {"test/a.test.cjs": TESTS}, "node --test")
    assert result.tests is not None
    assert result.tests.endings == {
        f"test/a.test.cjs::{name}": ending for name, ending in ENDINGS.items()
    }
    assert (result.tests.whole, result.passed, result.suite.proves) == (
        True,
        False,
        True,
    )
    assert "tests 9\n" in output


async def test_the_output_is_that_of_node_itself(tmp_path: Path) -> None:
    files = {"a.test.cjs": GREEN, "check.sh": "unset NODE_OPTIONS; node --test\n"}
    with_reporter = (await check(tmp_path, files, "node --test"))[1]
    without = (await check(tmp_path, files, "sh check.sh"))[1]
    names = [
        [line for line in text.splitlines() if "ms" not in line]
        for text in (with_reporter, without)
    ]
    assert names[0] == names[1]


async def test_options_of_the_user_stay(tmp_path: Path) -> None:
    test = "require('node:test')('options', () => { if (process.env.NODE_OPTIONS !== '--no-warnings') throw 1; });\n"
    result, _ = await check(
        tmp_path, {"a.test.cjs": test}, "node --test", NODE_OPTIONS="--no-warnings"
    )
    assert result.tests is not None
    assert result.tests.endings == {"a.test.cjs::options": "passed"}


@pytest.mark.slow
async def test_each_workspace_of_npm_names_its_tests(tmp_path: Path) -> None:
    package = '{"name": "%s", "version": "1.0.0", "scripts": {"test": "node --test"}}'
    files = {
        "package.json": '{"workspaces": ["a", "b"], "scripts": {"test": "npm test --workspaces"}}',
        **{f"{name}/package.json": package % name for name in "ab"},
        **{f"{name}/it.test.cjs": GREEN for name in "ab"},
    }
    result, _ = await check(tmp_path, files, "npm test")
    assert result.tests is not None
    assert result.tests.endings == {
        "a/it.test.cjs::adds": "passed",
        "b/it.test.cjs::adds": "passed",
    }
    assert [count.ran for count in result.suite.counts] == [1, 1]


async def test_a_file_that_breaks_hides_its_tests(tmp_path: Path) -> None:
    files = {
        "a.test.cjs": GREEN,
        "b.test.cjs": "throw new Error('broken');\n",
        "plain.test.cjs": "1 + 1;\n",
    }
    result, _ = await check(tmp_path, files, "node --test")
    assert result.tests is not None
    assert result.tests.endings == {
        "a.test.cjs::adds": "passed",
        "b.test.cjs": "failed",
        "plain.test.cjs": "passed",
    }
    assert not result.tests.whole


async def test_a_reporter_of_the_user_is_left_alone(tmp_path: Path) -> None:
    result, output = await check(
        tmp_path, {"a.test.cjs": GREEN}, "node --test --test-reporter=spec"
    )
    assert (result.passed, result.tests) == (True, None)
    assert "ℹ tests 1" in output


@pytest.mark.slow
async def test_a_package_of_a_workspace_with_its_own_reporter_is_left_alone(
    tmp_path: Path,
) -> None:
    package = '{"name": "a", "version": "1.0.0", "scripts": {"test": "node --test --test-reporter=spec"}}'
    files = {
        "package.json": '{"workspaces": ["a"]}',
        "a/package.json": package,
        "a/it.test.cjs": GREEN,
    }
    result, output = await check(tmp_path, files, "npm test --workspaces")
    assert (result.passed, result.tests) == (True, None)
    assert "ℹ tests 1" in output


async def test_a_node_that_does_not_know_reporters_runs_without(tmp_path: Path) -> None:
    old = tmp_path / "bin/node"
    old.parent.mkdir()
    refusal = "node: --test-reporter= is not allowed in NODE_OPTIONS"
    refuses = f"case $NODE_OPTIONS in *reporter*) echo '{refusal}'; exit 9;; esac"
    old.write_text(
        f"#!/bin/sh\n{refuses}\nprintf '# tests 2\\n# pass 2\\n# fail 0\\n# cancelled 0\\n'\n"
    )
    old.chmod(0o755)
    result, _ = await check(
        tmp_path,
        {"a.test.cjs": GREEN},
        "node --test",
        PATH=f"{old.parent}:{os.environ['PATH']}",
    )
    assert (result.passed, result.tests, result.suite.counts[0].ran) == (True, None, 2)


@pytest.mark.parametrize(
    ("texts", "starts"),
    [
        ("node --test", True),
        ("npm test --workspaces", True),
        ("pnpm -r test", True),
        ("npm test", False),
        ("npm test\nnode --import tsx --test 'src/**/*.test.ts'", True),
        ("node --test-only x.js", False),
        ("node --test --test-reporter=dot", False),
        ("NODE_OPTIONS=--no-warnings node --test", False),
        ("node cli.js", False),
    ],
)
def test_runs_of_node_tests_are_known(texts: str, starts: bool) -> None:
    assert starts_node_tests(texts) is starts
