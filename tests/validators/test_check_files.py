"""The paths that decide a validator's result, with their roles: attacks on them, and honest work that is none of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.checking.ignored_content import digest_of_path
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.validators.check_files import (
    NAMED,
    check_files,
    is_named_like_check,
    needed_paths,
)


def _case(name: str, run: str, files: Mapping[str, str], **roles: str) -> Any:
    found = {path: role for role, paths in roles.items() for path in paths.split()}
    return pytest.param(run, files, found, id=name.replace(" ", "-"))


_MAKE = "test:\n\tsh scripts/t.sh\n"
_CHECK = "import json, calc\nfrom csv import reader\n"

ATTACKS = [
    _case(
        "script of a script",
        "sh check.sh",
        {
            "check.sh": "sh tools/a.sh\n",
            "tools/a.sh": "./tools/b\n",
            "tools/b": "#!/bin/sh\n",
        },
        script="check.sh",
        named="tools/a.sh tools/b",
    ),
    _case(
        "script behind cd",
        "sh c.sh",
        {"c.sh": "cd t && ./a.sh\n", "t/a.sh": ""},
        named="c.sh t/a.sh",
    ),
    _case(
        "sourced",
        "bash c.sh",
        {"c.sh": ". ./lib.sh\nrun\n", "lib.sh": ""},
        named="c.sh lib.sh",
    ),
    _case(
        "functions and case",
        "sh c.sh",
        {
            "c.sh": "a() {\n  ./a.sh\n}\ncase $1 in\n  b) ./b.sh ;;\nesac\n",
            "a.sh": "",
            "b.sh": "",
        },
        named="c.sh a.sh b.sh",
    ),
    _case(
        "script with a line that is not understood",
        "bash c.sh",
        {"c.sh": "((i++))\nif true; then\n  ./a.sh\nfi\n", "a.sh": ""},
        named="c.sh a.sh",
    ),
    _case(
        "started twice",
        "sh a.sh",
        {"a.sh": "sh b.sh\n", "b.sh": "sh a.sh\n"},
        named="a.sh b.sh",
    ),
    _case(
        "checker of a script",
        "sh c.sh",
        {"c.sh": "python tools/verify.py\n", "tools/verify.py": "import json\n"},
        named="c.sh",
        script="tools/verify.py",
        before="tools/json.py tools/json/__init__.py",
    ),
    _case(
        "recipe of make",
        "make -s test",
        {"Makefile": _MAKE, "scripts/t.sh": ""},
        named="scripts/t.sh",
        before="GNUmakefile makefile test",
    ),
    _case(
        "recipe of a prerequisite",
        "make",
        {"Makefile": f".PHONY: all test\nall: test\n{_MAKE}", "scripts/t.sh": ""},
        named="scripts/t.sh",
        before="GNUmakefile makefile",
    ),
    _case(
        "included by make",
        "make check",
        {"GNUmakefile": "include rules.mk\n", "rules.mk": "check:\n\ttrue\n"},
        named="rules.mk",
    ),
    _case(
        "script of package.json",
        "npm test",
        {
            "package.json": '{"scripts": {"test": "npm run unit", "unit": "sh t.sh"}}',
            "t.sh": "",
        },
        named="t.sh",
    ),
    _case(
        "library beside a script",
        "python tools/check.py",
        {"tools/check.py": _CHECK},
        script="tools/check.py",
        before="tools/json.py tools/json/__init__.py tools/csv.py tools/csv/__init__.py",
    ),
    _case(
        "package before a module",
        "python -m tools.check",
        {"tools/check.py": ""},
        script="tools/check.py",
        before="tools/check/__init__.py tools.py",
    ),
    _case(
        "settings of a linter",
        "ruff check --config cfg/r.toml .",
        {"cfg/r.toml": ""},
        script="cfg/r.toml",
    ),
    _case(
        "plugins of a runner",
        "pytest -q",
        {
            "conftest.py": 'pytest_plugins = [\n    "a.plugin", "b"\n]\n',
            "pytest.ini": "[pytest]\naddopts = -q -p c.d -p no:cacheprovider\n",
            "a/plugin.py": "",
            "b/__init__.py": "",
            "c/d.py": "",
        },
        script="a/plugin.py b/__init__.py c/d.py",
    ),
    _case(
        "plugin of a runner",
        "pytest -p tools.plugin",
        {"tools/plugin.py": ""},
        script="tools/plugin.py",
    ),
    _case(
        "expectation",
        "python a.py > out && diff out want.txt",
        {"a.py": "", "want.txt": ""},
        work="a.py",
        compared="want.txt",
    ),
    _case(
        "expected folder",
        "sh c.sh",
        {"c.sh": "cmp -s a golden\ndiff -r out golden\n", "golden/a": ""},
        named="c.sh",
        compared="golden/",
    ),
    _case(
        "program of the project's tools",
        "python tools/gen.py",
        {"tools/gen.py": ""},
        named="tools/gen.py",
    ),
    _case(
        "runner of a framework",
        "python manage.py test",
        {"manage.py": ""},
        named="manage.py",
    ),
    _case(
        "test runner in the root",
        "python -m unittest tests.test_a",
        {"tests/test_a.py": ""},
        before="unittest.py unittest/__init__.py tests.py tests/test_a/__init__.py",
    ),
]

HONEST = [
    _case("work piped into a comparison", "python app.py | grep -q 3", {"app.py": ""}, work="app.py"),
    _case("check piped into a comparison", "sh check.sh | grep ok", {"check.sh": ""}, script="check.sh"),
    _case("check piped into a log", "sh c.sh | tee log", {"c.sh": ""}, named="c.sh"),
    _case("work of a script", "sh check.sh", {"check.sh": "python app.py > out\n", "app.py": ""}, script="check.sh"),
    _case(
        "shell work of a script", "sh c.sh", {"c.sh": 'test "$(sh sum.sh)" = 3\nsh sum.sh | diff - x\n', "sum.sh": ""},
        named="c.sh",
    ),
    _case(
        "build before a test",
        "make test",
        {"Makefile": ".PHONY: test\ntest: build\n\tgrep ok out\nbuild:\n\tsh build.sh\n", "build.sh": ""},
        before="GNUmakefile makefile",
    ),
    _case("other script of package.json", "npm test",
          {"package.json": '{"scripts": {"test": "jest", "build": "sh b.sh"}}', "b.sh": ""}),
    _case("script that the agent writes", "sh tools/new.sh", {"a": ""}),
    _case("module that the agent writes", "python -m app", {"a": ""}),
    _case("module that a script does not import", "python c.py", {"c.py": "import calc\n"}, work="c.py"),
    _case("program", "python -m tool --check", {"tool/__main__.py": "", "tool/__init__.py": ""},
          work="tool/__main__.py tool/__init__.py", before="tool.py"),
    _case("program of node", "node cli.js | jq .a", {"cli.js": ""}, work="cli.js"),
    _case("files that are looked at", "cd out && test -f a.txt && grep -q b c.txt && ! grep -q x ../top", {"out/d": ""},
          read="out/a.txt out/c.txt top"),
    _case("file that decides instead of the check", "test -f ok.txt || pytest -q", {"a": ""}),
    _case("file that a script looks at", "sh check.sh", {"check.sh": "[ -f ok.txt ] && exit 0\npytest -q\n"},
          script="check.sh"),
    _case("text that is compared", "cat want.txt | diff - out.txt", {"want.txt": "", "out.txt": ""}, compared="out.txt"),
    _case("program with uv", "uv run main.py", {"main.py": ""}, work="main.py"),
    _case("runner called directly", "pytest -q", {"tests/test_a.py": "import json\n"}),
]  # fmt: skip


@pytest.mark.parametrize(("run", "files", "roles"), [*ATTACKS, *HONEST])
def test_roles_of_the_files_of_a_validator(
    tmp_path: Path, run: str, files: Mapping[str, str], roles: Mapping[str, str]
) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert check_files(ValidatorSpec(name="v", run=run), tmp_path) == roles


def test_a_package_stands_before_the_module_of_a_callable(tmp_path: Path) -> None:
    (tmp_path / "checks.py").touch()
    found = check_files(ValidatorSpec(name="v", python="checks:done"), tmp_path)
    assert found == {"checks.py": "script", "checks/__init__.py": "before"}


def test_paths_are_those_of_the_folder_in_which_the_validator_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub/t").mkdir(parents=True)
    (tmp_path / "sub/Makefile").write_text("test:\n\tsh t/a.sh\n.PHONY: test\n")
    (tmp_path / "sub/t/a.sh").touch()
    found = check_files(ValidatorSpec(name="v", run="make test", cwd="sub"), tmp_path)
    assert found == {
        "sub/GNUmakefile": "before",
        "sub/makefile": "before",
        "sub/t/a.sh": "named",
    }


FILES = """
check.sh bin/check tools/__init__.py tools/check.py checks.py pkg/__init__.py pkg/more/__init__.py src/app.py
build/Make.mk sub/check.sh sub/checks.py tests/test_a.py lib/helper.py entry/__main__.py
""".split()


def named_paths(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    return tuple(
        path for path, role in check_files(spec, workspace).items() if role in NAMED
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (root / "link.sh").symlink_to("bin/check")
    (root / "out.sh").symlink_to(tmp_path / "outside.sh")
    (tmp_path / "outside.sh").touch()
    return root


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("./check.sh --all", ("check.sh",)),
        ("sh check.sh", ("check.sh",)),
        ("bash -e ./check.sh && bin/check", ("bin/check", "check.sh")),
        ("python tools/check.py src/app.py", ("tools/check.py",)),
        ("python -W error tools/check.py", ("tools/check.py",)),
        ("python entry", ("entry/__main__.py",)),
        ("python entry/ --all", ("entry/__main__.py",)),
        ("python -m tools.check", ("tools/__init__.py", "tools/check.py")),
        ("uv run tools/check.py", ("tools/check.py",)),
        ("uv run python tools/check.py", ("tools/check.py",)),
        ("coverage run tools/check.py", ("tools/check.py",)),
        ("make -f build/Make.mk check", ("build/Make.mk",)),
        ("./check.sh 2>&1 --all > log", ("check.sh",)),
        ("make 2>&1 -f build/Make.mk", ("build/Make.mk",)),
        ("make --file=build/Make.mk", ("build/Make.mk",)),
        ("make -fbuild/Make.mk check", ("build/Make.mk",)),
        ("gmake -f build/Make.mk", ("build/Make.mk",)),
        ("just -f build/Make.mk check", ("build/Make.mk",)),
        ("nox --noxfile tools/check.py", ("tools/check.py",)),
        ("tox -c build/Make.mk", ("build/Make.mk",)),
        ("npx ts-node tools/check.py", ("tools/check.py",)),
        ("Rscript bin/check", ("bin/check",)),
        ("cd sub && ./check.sh", ("check.sh", "sub/check.sh")),
        ("sh -c './check.sh'", ("check.sh",)),
        ("./link.sh", ("bin/check", "link.sh")),
        ("./out.sh", ("out.sh",)),
        ("pytest tests/test_a.py", ()),
        ("mypy src/app.py", ()),
        ("ruff check . && pytest -q", ()),
        ("python -c 'import checks' checks.py", ()),
        ("./gone.sh", ()),
        ("../outside.sh", ()),
        ("./check.sh 'unclosed", ()),
    ],
)
def test_scripts_of_a_command_line(
    workspace: Path, line: str, paths: tuple[str, ...]
) -> None:
    assert named_paths(ValidatorSpec(run=line), workspace) == paths


def test_files_of_a_callable(workspace: Path) -> None:
    assert named_paths(ValidatorSpec(python="checks:done"), workspace) == ("checks.py",)
    assert named_paths(ValidatorSpec(python="pkg.more:done"), workspace) == (
        "pkg/__init__.py",
        "pkg/more/__init__.py",
    )
    assert named_paths(ValidatorSpec(python="checks:done", cwd="sub"), workspace) == (
        "checks.py",
        "sub/checks.py",
    )
    on_path = ValidatorSpec(python="helper:done", env={"PYTHONPATH": "lib"})
    assert named_paths(on_path, workspace) == ("lib/helper.py",)
    assert named_paths(ValidatorSpec(python="installed:done"), workspace) == ()


def test_the_folder_of_the_check_counts(workspace: Path) -> None:
    assert named_paths(ValidatorSpec(run="./check.sh", cwd="sub"), workspace) == (
        "sub/check.sh",
    )


@pytest.mark.parametrize(
    ("path", "is_check"),
    [
        ("check.sh", True),
        ("ci/run.py", True),
        ("tools/verify_all.py", True),
        ("runTests.js", True),
        ("bin/run-tests", True),
        ("spec/main.lua", True),
        ("acceptance.py", True),
        ("selfcheck.py", True),
        ("scripts/lint-docs.sh", True),
        ("main.py", False),
        ("latest.py", False),
        ("contest/run.py", False),
        ("checksum.py", False),
        ("specific.py", False),
        ("tools/gen.py", False),
    ],
)
def test_names_of_checks(path: str, *, is_check: bool) -> None:
    assert is_named_like_check(path) is is_check


@given(st.text(alphabet="abtes_/.-T", max_size=12))
def test_a_folder_of_checks_makes_everything_in_it_a_check(path: str) -> None:
    assert is_named_like_check(f"tests/{path}")
    assert is_named_like_check(path) is is_named_like_check(f"./{path}")


@pytest.mark.parametrize(
    ("run", "needed"),
    [
        ("sh run.sh", "run.sh app.py"),
        ("python app.py", "app.py"),
        ("mypy app.py", "app.py"),
        ("cd sub && ruff check .", "sub/"),
        ("mytool --config=run.sh", "run.sh"),
        ("make words", "app.py"),
        # What is looked at or compared is the work: its absence is a result.
        ("grep -q hello app.py", ""),
        ("python app.py | grep -q hello", ""),
        ("python -c 'import app'", ""),
    ],
)
def test_a_command_needs_the_files_that_it_names(
    run: str, needed: str, tmp_path: Path
) -> None:
    for name, text in {
        "run.sh": "python app.py\n",
        "app.py": "",
        "sub/lib.py": "",
        "Makefile": "words:\n\tpython app.py\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    paths = needed_paths(ValidatorSpec(name="v", run=run), tmp_path, ())

    assert paths.scripts | paths.operands == set(needed.split())
    assert paths.manifests == ({"Makefile"} if "make" in run else set())


def test_what_a_known_script_starts_may_be_the_work(tmp_path: Path) -> None:
    script = "python app.py\n"
    (tmp_path / "run.sh").write_text(script)
    (tmp_path / "app.py").write_text("")
    known_lines = [digest_of_path(script), digest_of_path("sh run.sh")]
    spec = ValidatorSpec(name="v", run="sh run.sh")

    paths = needed_paths(spec, tmp_path, known_lines)

    assert paths.scripts == {"run.sh"}
    assert not paths.operands
