"""The rules of protection against attacks on checks: which paths count, and what validators see. Without runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from goalrunner.checking.environment import Layer
from goalrunner.checking.ignored_content import Changes, IgnoredContent
from goalrunner.checking.plan import Plan, make_plan
from goalrunner.checking.protection import BEFORE, COMPARED, ChangedPath, Protection
from goalrunner.checking.sides import CheckedChanges
from goalrunner.checking.start_files import StartFiles
from goalrunner.snapshots.objects import Entry, EntryPair
from goalrunner.snapshots.store import SnapshotStore

Files = Mapping[str, str]
"""Content by path; a link begins with "-> "."""

_WORKSPACE = Path("/workspace")
_TEST = "def test_add():\n    assert add(1, 2) == 3\n"
_CALC: Files = {
    "src/calc.py": "add = 1\n",
    "tests/test_calc.py": _TEST,
    "pyproject.toml": "[tool.pytest]\na = 1\n",
}
_PROTECT = Protection(["tests/**"])
_DEFAULT = Protection()
_EDITABLE = Protection(editable=["src/**"])
_EXISTING = "existing test"
_CONFIGURATION = "existing configuration of checks"
_NEW = "new configuration of existing checks"
_LINTING = "new configuration of linters for existing sources"


class Store(SnapshotStore):
    """The content of files in memory."""

    def __init__(self, *versions: Files, workspace: Path = _WORKSPACE) -> None:
        self.workspace = workspace
        self._contents = {
            _entry(content).blob: content
            for files in versions
            for content in files.values()
        }

    async def contents(self, paths: Mapping[str, str]) -> dict[str, bytes]:
        """Return the content of files, or the targets of links."""
        return {
            blob: self._contents[blob].removeprefix("-> ").encode() for blob in paths
        }


def _entry(content: str) -> Entry:
    link = content.startswith("-> ")
    return Entry(
        "120000" if link else "100644", hashlib.sha256(content.encode()).hexdigest()
    )


def _start(files: Files) -> StartFiles:
    links = {
        path: content.removeprefix("-> ")
        for path, content in files.items()
        if content.startswith("-> ")
    }
    return StartFiles(files, links)


def _changed(base: Files, now: Files) -> dict[str, EntryPair]:
    def entry(files: Files, path: str) -> Entry | None:
        return _entry(files[path]) if path in files else None

    return {
        path: (entry(base, path), entry(now, path))
        for path in {**base, **now}
        if base.get(path) != now.get(path)
    }


async def _plan(
    protection: Protection, base: Files, now: Mapping[str, str | None]
) -> Plan:
    """Plan a check. `now` is what the agent changed; None deletes a file."""
    after = {
        path: content
        for path, content in {**base, **now}.items()
        if content is not None
    }
    return await _planned(
        protection, base, Changes(), Store(base, after), _changed(base, after)
    )


async def _planned(
    protection: Protection,
    base: Files,
    changes: Changes,
    store: Store | None = None,
    changed: Mapping[str, EntryPair] | None = None,
) -> Plan:
    ignored = cast("IgnoredContent", Ignored())
    return await make_plan(
        store or Store(), protection, ignored, changes, _start(base), changed or {}
    )


class Ignored:
    """Files that git ignores, of which no content was kept."""

    def original(self, path: str) -> None:
        """Return nothing."""


def _protected(plan: Plan) -> tuple[ChangedPath, ...]:
    """Return what each side with the original checks puts back."""
    return CheckedChanges(plan.changes).put_back("O")


def _lines(plan: Plan) -> tuple[str, ...]:
    return tuple(
        f"{item.path} ({item.change}; {item.rule})" for item in _protected(plan)
    )


def _case(
    name: str,
    protection: Protection,
    now: Mapping[str, str | None],
    *lines: str,
    base: Files = _CALC,
) -> Any:
    return pytest.param(protection, base, now, lines, id=name.replace(" ", "-"))


_CONFTEST = {**_CALC, "conftest.py": "import sys\n"}
_SKIP = f"@pytest.mark.skip\n{_TEST}"
_NPM: Files = {
    "package.json": '{"scripts": {"test": "jest"}, "dependencies": {}}',
    "src/a.test.js": "t",
    "src/a.js": "a",
}
_GO: Files = {"sum.go": "package sum", "sum_test.go": "package sum"}

_BEFORE = Protection(scripts={"src/json.py": BEFORE})
_COMPARED = Protection(scripts={"app.py": f'{COMPARED} "v"'})

ATTACKS = [
    # Tests, under protect and by default.
    _case(
        "test skipped",
        _PROTECT,
        {"tests/test_calc.py": _SKIP},
        'tests/test_calc.py (changed; protect = "tests/**")',
    ),
    _case(
        "test skipped by default",
        _DEFAULT,
        {"tests/test_calc.py": _SKIP},
        f"tests/test_calc.py (changed; {_EXISTING})",
    ),
    _case(
        "test deleted by default",
        _DEFAULT,
        {"tests/test_calc.py": None},
        f"tests/test_calc.py (deleted; {_EXISTING})",
    ),
    _case(
        "test renamed by default",
        _DEFAULT,
        {"tests/test_calc.py": None, "tests/calc_checks.py": _TEST},
        f"tests/test_calc.py (deleted; {_EXISTING})",
    ),
    _case(
        "test renamed under protect",
        _PROTECT,
        {"tests/test_calc.py": None, "tests/calc_checks.py": _TEST},
        'tests/calc_checks.py (new; protect = "tests/**")',
        'tests/test_calc.py (deleted; protect = "tests/**")',
    ),
    _case(
        "tests moved to another case",
        _DEFAULT,
        {"tests/test_calc.py": None, "Tests/test_calc.py": _SKIP},
        f"tests/test_calc.py (deleted; {_EXISTING})",
    ),
    _case(
        "tests moved to another case under protect",
        _PROTECT,
        {"tests/test_calc.py": None, "Tests/test_calc.py": _SKIP},
        'Tests/test_calc.py (new; protect = "tests/**")',
        'tests/test_calc.py (deleted; protect = "tests/**")',
    ),
    _case(
        "tests behind a link",
        _DEFAULT,
        {"tests/test_calc.py": None, "tests": "-> easy", "easy/test_calc.py": _SKIP},
        f"tests/test_calc.py (deleted; {_EXISTING})",
    ),
    _case(
        "test becomes a link",
        _DEFAULT,
        {"tests/test_calc.py": "-> ../../easy.py"},
        f"tests/test_calc.py (changed; {_EXISTING})",
    ),
    _case(
        "data of a test changed",
        _DEFAULT,
        {"tests/data/sum.txt": "-1"},
        f"tests/data/sum.txt (changed; {_EXISTING})",
        base={**_CALC, "tests/data/sum.txt": "3"},
    ),
    _case(
        "target of a linked folder of tests changed",
        _DEFAULT,
        {"suite/check_a.py": "pass\n"},
        f"suite/check_a.py (changed; {_EXISTING})",
        base={
            "tests": "-> suite",
            "suite/check_a.py": _TEST,
            "src/calc.py": "add = 1\n",
        },
    ),
    _case(
        "package around the tests",
        _PROTECT,
        {"tests/__init__.py": "m"},
        'tests/__init__.py (new; protect = "tests/**")',
    ),
    _case(
        "test of Go changed",
        _DEFAULT,
        {"sum_test.go": "package x"},
        f"sum_test.go (changed; {_EXISTING})",
        base=_GO,
    ),
    _case(
        "test of JavaScript changed",
        _DEFAULT,
        {"src/a.test.js": ""},
        f"src/a.test.js (changed; {_EXISTING})",
        base=_NPM,
    ),
    # Configuration of test runners.
    *(
        _case(
            f"{name} planted, {mode}",
            protection,
            {name: content},
            f"{name} (new; {_NEW})",
        )
        for mode, protection in (("protect", _PROTECT), ("default", _DEFAULT))
        for name, content in (
            ("conftest.py", "x"),
            ("pytest.ini", "[pytest]"),
            (".pytest.ini", "[pytest]"),
            ("tox.ini", "[pytest]"),
            ("setup.cfg", "[tool:pytest]\naddopts = -p evil\n"),
            ("sitecustomize.py", "x"),
            ("GNUmakefile", "test:\n"),
        )
    ),
    _case(
        "conftest in the tests planted",
        _DEFAULT,
        {"tests/conftest.py": "x"},
        f"tests/conftest.py (new; {_NEW})",
    ),
    _case(
        "conftest changed",
        _DEFAULT,
        {"conftest.py": "x"},
        f"conftest.py (changed; {_CONFIGURATION})",
        base=_CONFTEST,
    ),
    _case(
        "conftest deleted",
        _DEFAULT,
        {"conftest.py": None},
        f"conftest.py (deleted; {_CONFIGURATION})",
        base=_CONFTEST,
    ),
    _case(
        "addopts changed",
        _DEFAULT,
        {"pyproject.toml": "[tool.pytest]\na = 2\n"},
        f"pyproject.toml (changed; {_CONFIGURATION})",
    ),
    _case(
        "manifest that cannot be read",
        _DEFAULT,
        {"pyproject.toml": "["},
        f"pyproject.toml (changed; {_CONFIGURATION})",
    ),
    _case(
        "npm script edited",
        _DEFAULT,
        {"package.json": '{"scripts": {"test": "true"}, "dependencies": {}}'},
        f"package.json (changed; {_CONFIGURATION})",
        base=_NPM,
    ),
    _case(
        "jest configured",
        _DEFAULT,
        {"jest.config.js": "x"},
        f"jest.config.js (new; {_NEW})",
        base=_NPM,
    ),
    # Configuration of linters and type checkers.
    _case(
        "ruff.toml planted",
        _DEFAULT,
        {"ruff.toml": "x"},
        f"ruff.toml (new; {_LINTING})",
    ),
    _case(
        "mypy.ini planted", _PROTECT, {"mypy.ini": "x"}, f"mypy.ini (new; {_LINTING})"
    ),
    _case(
        "linter in a new manifest",
        _DEFAULT,
        {"pyproject.toml": '[tool.ruff]\nexclude = ["a.py"]\n'},
        f"pyproject.toml (new; {_LINTING})",
        base={"a.py": "a"},
    ),
    # Scripts that validators name, and the goal file.
    _case(
        "script of a validator changed",
        Protection(scripts={"check.sh": 'named by validator "check"'}),
        {"check.sh": "exit 0"},
        'check.sh (changed; named by validator "check")',
        base={"check.sh": "exit 1"},
    ),
    _case(
        "script started by a script changed",
        Protection(scripts={"t/a.sh": 'named by validator "v"'}),
        {"t/a.sh": "exit 0"},
        't/a.sh (changed; named by validator "v")',
        base={"t/a.sh": "exit 1"},
    ),
    _case(
        "library before a check",
        _BEFORE,
        {"src/json.py": "x"},
        f"src/json.py (new; {BEFORE})",
    ),
    _case(
        "library before a check, editable",
        Protection(editable=["src/**"], scripts={"src/json.py": BEFORE}),
        {"src/json.py": "x"},
        f"src/json.py (new; {BEFORE})",
    ),
    _case(
        "sitecustomize in a folder of sources",
        _PROTECT,
        {"src/sitecustomize.py": "x"},
        f"src/sitecustomize.py (new; {_NEW})",
    ),
    # editable: everything else is protected.
    _case("new module", _EDITABLE, {"json.py": "x"}, "json.py (new; not editable)"),
    _case("new environment file", _EDITABLE, {".env": "x"}, ".env (new; not editable)"),
]

HONEST = [
    _case("code", _DEFAULT, {"src/calc.py": "add = 2\n", "src/new.py": "n\n"}),
    _case(
        "new tests", _DEFAULT, {"tests/test_more.py": _TEST, "tests/data/more.txt": "4"}
    ),
    _case("new tests beside protected ones", _PROTECT, {"more/test_more.py": _TEST}),
    _case(
        "new conftest of new tests",
        _DEFAULT,
        {"more/conftest.py": "x", "more/test_more.py": _TEST},
    ),
    _case(
        "first conftest of a project",
        _DEFAULT,
        {"conftest.py": "x", "tests/test_a.py": _TEST},
        base={"a.py": "a"},
    ),
    _case(
        "dependency in pyproject.toml",
        _DEFAULT,
        {
            "pyproject.toml": '[project]\ndependencies = ["attrs"]\n[tool.pytest]\na = 1\n'
        },
    ),
    _case(
        "dependency in pyproject.toml under protect",
        _PROTECT,
        {
            "pyproject.toml": '[project]\ndependencies = ["attrs"]\n[tool.pytest]\na = 1\n'
        },
    ),
    _case(
        "dependency in package.json",
        _DEFAULT,
        {"package.json": '{"scripts": {"test": "jest"}, "dependencies": {"a": "1"}}'},
        base=_NPM,
    ),
    _case(
        "first manifest of a project",
        _DEFAULT,
        {
            "pyproject.toml": '[project]\nname = "a"\n[tool.pytest]\na = 1\n',
            "tests/test_a.py": _TEST,
        },
        base={"a.py": "a"},
    ),
    _case(
        "first package.json of a project",
        _DEFAULT,
        {"package.json": '{"type": "module"}'},
        base={"a.js": "a"},
    ),
    _case(
        "new manifest beside tests",
        _DEFAULT,
        {"package.json": '{"name": "x"}'},
        base=_GO,
    ),
    _case("sources under editable", _EDITABLE, {"src/calc.py": "add = 2\n"}),
    _case(
        "file that was there before",
        _BEFORE,
        {"src/json.py": "y"},
        base={**_CALC, "src/json.py": "x"},
    ),
    _case(
        "caches",
        _PROTECT,
        {"tests/__pycache__/test_calc.pyc": "x", ".pytest_cache/a": "x"},
    ),
]


@pytest.mark.parametrize(("protection", "base", "now", "lines"), ATTACKS)
async def test_validators_see_the_original(
    protection: Protection,
    base: Files,
    now: Mapping[str, str | None],
    lines: tuple[str, ...],
) -> None:
    plan = await _plan(protection, base, now)
    assert _lines(plan) == lines
    layer = await plan.layer(_protected(plan))
    for item in _protected(plan):
        if item.change == "new":
            assert item.path in layer.hide
        else:
            assert (
                layer.put[item.path].data
                == base[item.path].removeprefix("-> ").encode()
            )
    delivered = await plan.layer(())
    assert not {item.path for item in plan.changes} & (
        delivered.put.keys() | delivered.hide
    )


@pytest.mark.parametrize(("protection", "base", "now", "lines"), HONEST)
async def test_honest_work_is_seen_as_it_is(
    protection: Protection,
    base: Files,
    now: Mapping[str, str | None],
    lines: tuple[str, ...],
) -> None:
    plan = await _plan(protection, base, now)
    assert not _protected(plan)
    # Bytecode beside protected tests is never read, whatever its source says.
    assert await plan.layer(()) == Layer(
        _WORKSPACE, hide=plan.hidden & {"tests/__pycache__"}
    )


async def test_a_script_whose_output_is_compared_is_original_on_one_side() -> None:
    base = {"app.py": "print(2)\n"}
    plan = await _plan(_COMPARED, base, {"app.py": "print(3)\n"})
    assert not _protected(plan)
    assert [item.path for item in CheckedChanges(plan.changes).put_back("B")] == [
        "app.py"
    ]
    editable = await _plan(
        Protection(editable=["*.py"], scripts=_COMPARED.scripts),
        base,
        {"app.py": "print(3)\n"},
    )
    assert CheckedChanges(editable.changes).sides == ("M",)


async def test_ignored_files_that_are_new_or_changed_exist_on_one_side_only() -> None:
    rules = Protection(scripts={"check.sh": 'named by validator "v"'})
    plan = await _planned(
        rules, _CALC, Changes(changed=("check.sh", "notes.py"), appeared=("data",))
    )
    case = CheckedChanges(plan.changes)
    assert (await plan.layer(case.put_back("B"))).hide >= {
        "check.sh",
        "notes.py",
        "data",
    }
    assert not (await plan.layer(case.put_back("O"))).hide & {
        "check.sh",
        "notes.py",
        "data",
    }
    assert case.reviewed == ("check.sh",)


async def test_ignored_files_outside_of_editable_never_exist_with_the_original_checks() -> (
    None
):
    plan = await _planned(_EDITABLE, _CALC, Changes(appeared=("data", "src/made.py")))
    case = CheckedChanges(plan.changes, strict=True)
    assert case.sides == ("B",)
    assert "data" in (await plan.layer(case.put_back("O"))).hide
    assert "src/made.py" not in (await plan.layer(case.put_back("B"))).hide


async def test_what_cannot_be_put_back_is_refused_if_it_is_protected_and_else_named() -> (
    None
):
    big = Entry("100644", "f" * 64, stored=False)
    changed = {"tests/big.bin": (big, None), "data/big.bin": (big, None)}
    base = {**_CALC, "tests/big.bin": "x", "data/big.bin": "x"}
    plan = await _planned(_PROTECT, base, Changes(), changed=changed)
    assert plan.refusal.startswith(
        "the original content of tests/big.bin is needed to check your work and is not kept"
    )
    assert (
        plan.hint
        == 'the run can go on if they may change: [workspace] allow = ["tests/big.bin"]'
    )
    case = CheckedChanges(plan.changes)
    assert [(item.path, item.allowed) for item in case.changes if item.allowed] == [
        ("data/big.bin", "its original content is not kept")
    ]


async def test_a_folder_that_stands_before_a_file_of_a_check_is_hidden(
    tmp_path: Path,
) -> None:
    (tmp_path / "check").mkdir()
    rules = Protection(scripts={"check": f'{BEFORE} "v"'})
    store = Store(workspace=tmp_path)
    plan = await _planned(rules, _CALC, Changes(), store)
    assert _lines(plan) == (f'check (new; {BEFORE} "v")',)
    assert "check" in (await plan.layer(_protected(plan))).hide
    plan = await _planned(rules, {"check/a": "x"}, Changes(), store)
    assert not _protected(plan)


async def test_an_approval_is_for_exactly_one_content() -> None:
    plan = await _plan(_DEFAULT, _CALC, {"tests/test_calc.py": _SKIP})
    same = await _plan(
        _DEFAULT, _CALC, {"tests/test_calc.py": _SKIP, "src/calc.py": "add = 2\n"}
    )
    other = await _plan(_DEFAULT, _CALC, {"tests/test_calc.py": "pass\n"})
    paths = ["tests/test_calc.py"]
    assert plan.key(paths, ()) == same.key(paths, ())
    assert (
        len(
            {
                plan.key(paths, ()),
                other.key(paths, ()),
                plan.key((), ()),
                plan.key(paths, ["tests/a.py::b"]),
            }
        )
        == 4
    )


async def test_bytecode_beside_an_original_source_is_hidden() -> None:
    plan = await _plan(_DEFAULT, _CALC, {"tests/test_calc.py": _SKIP})
    assert "tests/__pycache__" in (await plan.layer(_protected(plan))).hide


async def test_bytecode_that_was_written_in_the_run_is_hidden_on_every_side() -> None:
    plan = await _plan(_DEFAULT, _CALC, {"src/__pycache__/calc.cpython-311.pyc": "x"})
    assert not plan.changes
    assert "src/__pycache__" in (await plan.layer(())).hide
