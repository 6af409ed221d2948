"""What each changed path means for the checks: by the goal's keys, by the baseline, and by names."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.checking.named_by_goal import named_by_goal
from goalrunner.checking.protection import (
    BEFORE,
    COMPARED,
    GOAL_FILE,
    LINK,
    SCRIPT,
    USED,
    ChangedPath,
    Protection,
    classify_changes,
    contents_needed,
)
from goalrunner.checking.start_files import ObservedChecks, StartFiles
from goalrunner.snapshots.objects import Entry

Files = Mapping[str, str]
"""Content by path; a link begins with "-> "."""

DEFAULT = Protection()
PROTECT = Protection(protect=["tests/**"])
EDITABLE = Protection(editable=["src/**"])


def _entry(content: str) -> Entry:
    return (
        Entry(LINK, content[3:])
        if content.startswith("-> ")
        else Entry("100644", content)
    )


def changes(
    rules: Protection, base: Files, now: Files, seen: ObservedChecks | None = None
) -> dict[str, ChangedPath]:
    """Return what differs; the content of a file is its id in the store."""
    links = {path: text[3:] for path, text in base.items() if text.startswith("-> ")}
    start = StartFiles(base, links)
    pairs = {
        path: (
            _entry(base[path]) if path in base else None,
            _entry(now[path]) if path in now else None,
        )
        for path in {**base, **now}
        if base.get(path) != now.get(path)
    }
    contents = {blob: blob.encode() for blob in contents_needed(pairs)}
    rules = rules.with_observed(seen or ObservedChecks(), start)
    return {item.path: item for item in classify_changes(rules, start, pairs, contents)}


def changed(
    rules: Protection,
    path: str,
    *others: str,
    seen: ObservedChecks | None = None,
    now: str = "b",
) -> ChangedPath:
    """Return what the change of one file means, beside other files of the start."""
    base = {path: "a"} | dict.fromkeys(others, "a")
    return changes(rules, base, {**base, path: now}, seen)[path]


def added(
    rules: Protection,
    path: str,
    *others: str,
    seen: ObservedChecks | None = None,
    now: str = "b",
) -> ChangedPath:
    base = dict.fromkeys(others, "a")
    return changes(rules, base, {**base, path: now}, seen)[path]


def lines(found: Mapping[str, ChangedPath]) -> list[str]:
    return [str(item) for item in found.values() if item.protected]


# -- tests by names, where nothing was observed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tests/test_a.py", "test"),
        ("tests/helpers.py", "data"),
        ("tests/data/a.json", "data"),
        ("web/__tests__/a.js", "data"),
        ("web/__snapshots__/a.snap", "data"),
        ("web/src/a.snap", "data"),
        ("e2e/login.ts", "data"),
        ("spec/a_spec.rb", "test"),
        ("spec/x/a_spec.rb", "test"),
        ("features/login.feature", "test"),
        ("src/test_a.py", "test"),
        ("src/a_test.py", "test"),
        ("app/tests.py", "test"),
        ("pkg/a_test.go", "test"),
        ("pkg/testdata/a.txt", "data"),
        ("src/a.test.ts", "test"),
        ("src/a.spec.tsx", "test"),
        ("src/ATest.java", "test"),
        ("src/ATests.cs", "test"),
        ("src/ATest.kt", "test"),
        ("src/ATest.php", "test"),
    ],
)
def test_tests_of_the_start_are_protected_by_default(path: str, kind: str) -> None:
    item = changed(DEFAULT, path)
    assert (item.kind, item.rule, item.protected, item.is_work) == (
        kind,
        "existing test",
        True,
        False,
    )
    assert changes(DEFAULT, {path: "a"}, {})[path].change == "deleted"
    new = added(DEFAULT, path, "src/a.c")
    assert not new.protected
    assert not new.is_work


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/a.py", "source"),
        ("src/contest.py", "source"),
        ("src/latest/a.py", "source"),
        ("src/features/cart/cart.ts", "source"),
        ("app/specs/loader.py", "source"),
        ("src/spec/model.ts", "source"),
        ("app/templates/page.html", "source"),
        ("requirements.txt", "source"),
        ("uv.lock", "source"),
        ("README.md", "data"),
        ("docs/testing.md", "data"),
        ("config.json", "data"),
        ("golden/page.html", "data"),
        ("golden/formatted.py", "data"),
        ("src/expected.py", "source"),
    ],
)
def test_other_files_are_source_if_they_are_code_and_else_data(
    path: str, kind: str
) -> None:
    for item in (
        changed(DEFAULT, path, "tests/test_a.py"),
        added(DEFAULT, path, "tests/test_a.py"),
    ):
        assert (item.kind, item.rule, item.protected, item.is_work) == (
            kind,
            "",
            False,
            kind == "source",
        )


def test_folders_with_sources_and_tests_side_by_side_are_no_folders_of_tests() -> None:
    beside = (
        "src/features/cart/cart.test.ts",
        "src/features/cart/store.ts",
        "src/features/cart/api.ts",
    )
    assert changed(DEFAULT, "src/features/cart/cart.ts", *beside).is_work
    assert changed(DEFAULT, "src/features/cart/cart.test.ts", *beside[1:]).protected
    tests = ("spec/a_spec.rb", "spec/b_spec.rb", "spec/c_spec.rb")
    assert changed(DEFAULT, "spec/spec_helper.rb", *tests).rule == "existing test"
    assert changed(
        DEFAULT, "features/steps/login.py", "features/a.feature", "features/b.feature"
    ).protected


def test_data_outside_of_tests_and_expectations_is_of_the_program() -> None:
    paths = ("shop/table.json", "tests/table.json", "golden/page.txt", "shop/cart.py")

    of_program = [path for path in paths if DEFAULT.describe(path, "new").of_program]

    assert of_program == ["shop/table.json"]


def test_an_executable_without_a_suffix_is_source() -> None:
    start = StartFiles(["bin/tool"])
    pair = {"bin/tool": (Entry("100755", "a"), Entry("100755", "b"))}
    assert classify_changes(DEFAULT, start, pair, {})[0].kind == "source"


# -- tests by what the baseline showed -----------------------------------------------------------------------------------

PYTHON = frozenset({"python"})


def seen(*files: str, **more: object) -> ObservedChecks:
    return ObservedChecks(
        frozenset(files),
        **{"languages": PYTHON, "tools": frozenset({"pytest"}), **more},  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("path", "files", "kind"),
    [
        ("src/check_sum.py", ["src/check_sum.py"], "test"),
        ("src/sum.py", ["src/check_sum.py"], "source"),
        ("app/ab_test.py", ["tests/test_a.py"], "source"),
        ("src/test_helpers.py", ["tests/test_a.py"], "source"),
        ("tests/helpers.py", ["tests/test_a.py"], "data"),
        ("tests/data/sum.txt", ["tests/unit/test_a.py"], "data"),
        ("tests/test_slow.py", ["tests/test_a.py"], "data"),  # it was not collected
        (
            "src/tests/client.py",
            ["tests/test_a.py"],
            "source",
        ),  # a package for people who write tests
        ("shop/models.py", ["shop/tests.py"], "source"),
        ("shop/fixture.json", ["shop/tests.py"], "data"),
        ("app/specs/loader.py", ["tests/test_a.py"], "source"),
        (
            "app/specs/loader.py",
            ["app/specs/test_a.py"],
            "data",
        ),  # tests were collected there
        ("suite/data/sum.txt", ["suite/check_a.py"], "data"),
        (
            "web/src/a.test.ts",
            ["tests/test_a.py"],
            "test",
        ),  # names decide in another language
        ("pkg/a_test.go", ["tests/test_a.py"], "test"),
    ],
)
def test_tests_are_files_that_tests_were_collected_from(
    path: str, files: list[str], kind: str
) -> None:
    item = changed(
        DEFAULT, path, *files, "shop/views.py", "app/main.py", seen=seen(*files)
    )
    is_check = kind == "test" or (kind == "data" and path != "shop/fixture.json")
    assert (item.kind, item.protected) == (kind, is_check)


def test_names_decide_where_not_all_tests_are_known() -> None:
    some = seen("src/check_sum.py", languages=frozenset())
    assert (
        changed(DEFAULT, "src/test_helpers.py", "src/check_sum.py", seen=some).kind
        == "test"
    )
    assert changed(DEFAULT, "src/check_sum.py", seen=some).kind == "test"


def test_a_new_file_is_a_test_if_tests_were_collected_from_it() -> None:
    start = StartFiles(["src/a.py", "tests/test_a.py"])
    rules = DEFAULT.with_observed(seen("tests/test_a.py"), start)
    pairs = {
        path: (None, Entry("100644", "x"))
        for path in ("src/ab_test.py", "src/check_b.py", "tests/test_b.py")
    }
    delivered = seen("tests/test_a.py", "tests/test_b.py", "src/check_b.py")
    kinds = {
        item.path: item.kind
        for item in classify_changes(rules, start, pairs, {}, delivered=delivered)
    }
    assert kinds == {
        "src/ab_test.py": "source",
        "src/check_b.py": "test",
        "tests/test_b.py": "test",
    }
    kinds = {item.path: item.kind for item in classify_changes(rules, start, pairs, {})}
    assert kinds == {
        "src/ab_test.py": "test",
        "src/check_b.py": "source",
        "tests/test_b.py": "test",
    }


def test_for_validators_that_only_lint_tests_are_work_and_their_configuration_is_the_check() -> (
    None
):
    lint = ObservedChecks(tools=frozenset({"mypy"}), runs_tests=False)
    for path in ("tests/test_a.py", "tests/data.py", "conftest.py", "src/a_test.py"):
        assert changed(DEFAULT, path, seen=lint).is_work
        assert added(DEFAULT, path, "src/a.py", seen=lint).is_work
    assert changed(DEFAULT, "mypy.ini", seen=lint).protected
    assert changed(
        DEFAULT, "pyproject.toml", seen=lint, now="[tool.pytest]\na = 1\n"
    ).protected  # "a" is no TOML
    base, now = (
        {"pyproject.toml": "[tool.mypy]\na = 1\n"},
        {"pyproject.toml": "[tool.mypy]\na = 2\n"},
    )
    assert changes(DEFAULT, base, now, lint)["pyproject.toml"].protected
    now = {"pyproject.toml": "[tool.mypy]\na = 1\n[tool.pytest]\nb = 1\n"}
    assert changes(DEFAULT, base, now, lint)["pyproject.toml"].is_work


# -- configuration -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [DEFAULT, PROTECT], ids=["default", "protect"])
@pytest.mark.parametrize(
    "path",
    """
    conftest.py src/conftest.py pytest.ini pyproject.toml sub/setup.cfg tox.ini .coveragerc sitecustomize.py package.json
    jest.config.mjs vitest.config.ts Makefile justfile gradle/tests.gradle gradle/wrapper/gradle-wrapper.properties
    buildSrc/src/main/groovy/tests.groovy phpstan-baseline.neon .rubocop_todo.yml eslint-suppressions.json Cargo.toml
    .cargo/config.toml phpunit.xml ruff.toml mypy.ini .flake8 tsconfig.json tsconfig.app.json .eslintrc.json
    eslint.config.js .golangci.yml .pre-commit-config.yaml noxfile.py __mocks__/fs.js src/__mocks__/api.ts babel.config.js
    .babelrc .nycrc.json karma.conf.js .importlinter pyrightconfig.json .prettierrc.cjs .rspec .clang-tidy
    """.split(),
)
def test_configuration_of_the_start_is_protected(path: str, rules: Protection) -> None:
    item = changed(rules, path, "src/a.py")
    assert (item.kind, item.rule, item.protected) == (
        "configuration",
        "existing configuration of checks",
        True,
    )


@pytest.mark.parametrize(
    ("path", "tools", "is_check"),
    [
        ("ruff.toml", "pytest", False),
        ("ruff.toml", "ruff", True),
        (".gitignore", "pytest", False),
        (".gitignore", "ruff", True),
        ("mypy-baseline.txt", "mypy", True),
        ("eslint.config.js", "eslint", True),
        ("tsconfig.json", "pytest", False),
        ("tsconfig.json", "vitest", True),
        ("vite.config.ts", "vitest", True),
        ("next.config.js", "jest", True),  # beside a package.json
        ("src/app.config.ts", "jest", False),
        ("Makefile", "pytest", False),
        ("Makefile", "make", True),
        ("tasks.py", "pytest", False),
        ("tasks.py", "invoke", True),
        ("coverage.py", "coverage", False),
        ("ruff.py", "ruff", False),
        ("docs/ruff.md", "ruff", False),
        ("Cargo.lock", "cargo", False),
        ("sitecustomize.py", "pytest", True),
    ],
)
def test_configuration_is_what_started_programs_read(
    path: str, tools: str, *, is_check: bool
) -> None:
    item = changed(
        DEFAULT,
        path,
        "package.json",
        "a.c",
        seen=ObservedChecks(tools=frozenset(tools.split())),
    )
    assert (item.kind == "configuration", item.protected) == (is_check, is_check)


TESTS_OF_THE_START = "new configuration of existing checks"
SOURCES_OF_THE_START = "new configuration of linters for existing sources"


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("pytest.ini", TESTS_OF_THE_START),
        ("conftest.py", TESTS_OF_THE_START),
        ("tests/conftest.py", TESTS_OF_THE_START),
        ("tests/unit/conftest.py", TESTS_OF_THE_START),
        ("package.json", TESTS_OF_THE_START),
        ("__mocks__/fs.js", TESTS_OF_THE_START),
        (".cargo/config.toml", TESTS_OF_THE_START),
        ("src/sitecustomize.py", TESTS_OF_THE_START),
        ("tests/other/conftest.py", ""),  # no test of the start is below it
        ("src/conftest.py", ""),
        ("src/Makefile", ""),
        ("ruff.toml", SOURCES_OF_THE_START),
        ("src/ruff.toml", SOURCES_OF_THE_START),
        ("src/package.json", SOURCES_OF_THE_START),  # it configures linters as well
        ("src/pyproject.toml", SOURCES_OF_THE_START),
        ("new/ruff.toml", ""),
        ("new/pyproject.toml", ""),
    ],
)
@pytest.mark.parametrize(
    "rules", [DEFAULT, Protection(protect=["checks/**"])], ids=["default", "protect"]
)
def test_new_configuration_counts_where_it_takes_effect_on_what_was_there(
    path: str, rule: str, rules: Protection
) -> None:
    item = added(rules, path, "src/a.py", "tests/unit/test_a.py")
    assert (item.rule, item.protected) == (rule, bool(rule))
    assert not item.is_work


@pytest.mark.parametrize("path", [".cargo/config.toml", "rust-toolchain.toml"])
def test_new_configuration_of_cargo_counts_beside_sources(path: str) -> None:
    # Tests of Rust lie in sources, so their files are not known.
    seen = ObservedChecks(tools=frozenset({"cargo"}))
    start = StartFiles(["src/lib.rs"])
    item = Protection().with_observed(seen, start).describe(path, "new")
    assert (item.rule, item.protected) == (TESTS_OF_THE_START, True)


def test_in_a_project_without_tests_new_configuration_of_runners_is_work() -> None:
    for path in ("pytest.ini", "conftest.py", "Makefile", "jest.config.js"):
        assert added(DEFAULT, path, "src/a.py").is_work
    assert not added(DEFAULT, "tests/test_a.py", "src/a.py").protected


@pytest.mark.parametrize(
    "path", ["new/ruff.toml", "new/mypy.ini", "new/pyproject.toml"]
)
def test_new_configuration_of_linters_is_no_work_beside_sources(path: str) -> None:
    lint = Protection().with_observed(
        ObservedChecks(runs_tests=False), StartFiles(["src/a.py"])
    )
    item = lint.describe(path, "new")
    assert (item.kind, item.protected, item.is_work) == ("configuration", False, False)
    empty = Protection().with_observed(
        ObservedChecks(runs_tests=False), StartFiles(["README.md"])
    )
    assert empty.describe(path, "new").is_work


@pytest.mark.parametrize(
    ("path", "is_work"),
    [
        ("typing.py", False),
        ("json/__init__.py", False),
        ("src/typing.py", True),
        ("code/b.py", True),
    ],
)
def test_a_new_module_of_python_is_no_work_where_only_linters_run(
    path: str, is_work: bool
) -> None:
    start = StartFiles(["src/a.py", "code/a.py"])
    assert (
        Protection()
        .with_observed(ObservedChecks(runs_tests=False), start)
        .describe(path, "new")
        .is_work
        is is_work
    )
    assert (
        Protection()
        .with_observed(ObservedChecks(), start)
        .describe(path, "new")
        .is_work
    )


@pytest.mark.parametrize("rules", [DEFAULT, PROTECT], ids=["default", "protect"])
def test_a_manifest_is_source_if_only_dependencies_and_metadata_changed(
    rules: Protection,
) -> None:
    base = {
        "pyproject.toml": '[project]\nversion = "1"\n[tool.pytest]\na = 1\n',
        "tests/test_a.py": "",
    }
    new_dependency = base["pyproject.toml"].replace('"1"', '"2"\ndependencies = ["x"]')
    item = changes(rules, base, {**base, "pyproject.toml": new_dependency})[
        "pyproject.toml"
    ]
    assert (item.kind, item.rule, item.is_work) == ("source", "", True)
    item = changes(rules, base, {**base, "pyproject.toml": f"{new_dependency}b = 1\n"})[
        "pyproject.toml"
    ]
    assert (item.kind, item.protected) == ("configuration", True)


def test_a_change_of_the_mode_of_configuration_is_work() -> None:
    start = StartFiles(["conftest.py"])
    for mode, is_work in (("100755", True), (LINK, False)):
        pair = {"conftest.py": (Entry("100644", "a"), Entry(mode, "a"))}
        assert classify_changes(DEFAULT, start, pair, {})[0].is_work is is_work


@pytest.mark.parametrize(
    ("path", "rules", "is_work"),
    [
        ("tests/test_a.py", DEFAULT, True),
        ("tests/data/a.py", DEFAULT, False),
        ("tests/test_a.py", PROTECT, False),
        ("tests/test_a.py", EDITABLE, False),
    ],
)
def test_a_test_that_was_only_reformatted_is_work(
    path: str, rules: Protection, is_work: bool
) -> None:
    old = "def test_a( ):\n  assert  x\n"
    item = changes(rules, {path: old}, {path: "def test_a():\n    assert x\n"})[path]
    assert item.is_work is is_work
    changed_test = changes(rules, {path: old}, {path: "def test_a():\n    x\n"})[path]
    assert not changed_test.is_work


def test_content_that_is_not_kept_differs() -> None:
    start = StartFiles(["pyproject.toml"])
    pair = {
        "pyproject.toml": (
            Entry("100644", "a", stored=False),
            Entry("100644", "b", stored=False),
        )
    }
    assert contents_needed(pair) == {}
    assert classify_changes(DEFAULT, start, pair, {})[0].protected


# -- files of checks -----------------------------------------------------------------------------------------------------

ROLES = {
    "check.sh": f'{SCRIPT} "v"',
    "lib.sh": f'{USED} "v"',
    "golden.txt": f'{COMPARED} "v"',
    "expected/": f'{COMPARED} "v"',
    "mypy.py": f'{BEFORE} "v"',
    "goal.toml": GOAL_FILE,
}


@pytest.mark.parametrize(
    ("path", "kind", "protected", "named"),
    [
        ("check.sh", "script", True, False),
        ("lib.sh", "source", False, True),
        ("golden.txt", "data", False, True),
        ("expected/a/b.txt", "data", False, True),
        ("goal.toml", "configuration", True, False),
    ],
)
def test_files_that_validators_start_and_compare(
    path: str, kind: str, *, protected: bool, named: bool
) -> None:
    item = changed(Protection(scripts=ROLES), path)
    assert (item.kind, item.protected, item.named, item.is_work) == (
        kind,
        protected,
        named,
        False,
    )
    assert changed(
        Protection(["tests/**"], scripts=ROLES), path, "tests/a"
    ).protected  # nothing is reviewed there
    is_decisive = path in ("check.sh", "goal.toml")
    assert (
        changed(Protection(editable=["**"], scripts=ROLES), path).protected
        is is_decisive
    )
    assert not changed(Protection(editable=["**"], scripts=ROLES), path).named
    allowed = changed(Protection(allow=["**"], scripts=ROLES), path)
    assert allowed.allowed == ("" if path == "goal.toml" else "allow")


def test_a_file_that_would_be_found_first_is_protected_only_if_it_is_new() -> None:
    for rules in (
        Protection(scripts=ROLES),
        Protection(editable=["**"], scripts=ROLES),
    ):
        assert added(rules, "mypy.py", "a.py").protected
    assert changed(Protection(scripts=ROLES), "mypy.py").is_work


def test_an_expectation_among_tests_is_protected_and_named() -> None:
    item = changed(
        Protection(scripts={"tests/golden.txt": f'{COMPARED} "v"'}),
        "tests/golden.txt",
        "tests/test_a.py",
    )
    assert (item.kind, item.rule, item.protected, item.named) == (
        "data",
        "existing test",
        True,
        True,
    )


# -- what the goal names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "path", "now", "ending"),
    [
        ("Fix lib.sh", "lib.sh", "b", "work"),
        ("Fix lib.sh but do not change golden.txt", "lib.sh", "b", "named"),
        ("Make it work", "lib.sh", "b", "named"),
        ("Write golden.txt", "golden.txt", "b", "named"),
        ("Fix check.sh", "check.sh", "b", "protected"),
        ("Document it in README.md", "README.md", "b", "work"),
        ("Document it", "README.md", "b", "data"),
        ("Add a make target lint", "Makefile", "a\nlint:\n\truff check\n", "allowed"),
        (
            "Add a make target lint",
            "Makefile",
            "a\nlint:\n\truff check\nX = 1\n",
            "protected",
        ),
        ("Add a make target lint", "Makefile", "b", "protected"),
        ("Fix the tests in tests/test_a.py", "tests/test_a.py", "b", "protected"),
        ("Fix conftest.py", "conftest.py", "b", "protected"),
    ],
)
def test_what_the_goal_asks_to_change_by_its_name(
    objective: str, path: str, now: str, ending: str
) -> None:
    rules = Protection(scripts=ROLES, named=named_by_goal([objective]))
    item = changed(rules, path, "tests/test_b.py", now=now)
    found = (
        "allowed"
        if item.allowed == "named by the objective"
        else "protected"
        if item.protected
        else ""
    )
    found = found or ("named" if item.named else "work" if item.is_work else "data")
    assert found == ending
    strict = changed(
        Protection(["tests/**"], scripts=ROLES, named=rules.named),
        path,
        "tests/test_b.py",
        now=now,
    )
    assert not strict.allowed


def test_new_configuration_that_the_goal_names_is_allowed() -> None:
    rules = Protection(named=named_by_goal(["Add a conftest.py"]))
    item = added(rules, "conftest.py", "tests/test_a.py")
    assert (item.allowed, item.protected, item.rule) == (
        "named by the objective",
        False,
        TESTS_OF_THE_START,
    )
    assert added(DEFAULT, "conftest.py", "tests/test_a.py").protected


# -- protect, editable, allow --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "protected"),
    [
        ("tests/**", "tests/test_a.py", True),
        ("tests/**", "tests/deep/test_a.py", True),
        ("./tests/", "tests/test_a.py", True),
        ("tests", "tests/test_a.py", True),
        ("tests/**", "src/tests/a.py", False),
        ("*.test.js", "src/a.test.js", True),
        ("/check.sh", "check.sh", True),
        ("/check.sh", "sub/check.sh", False),
        ("tests/**", "Tests/TEST_A.py", True),  # one name on some file systems
        ("TESTS/**", "tests/a.py", True),
        ("t\u00e9sts/**", "te\u0301sts/a.py", True),
    ],
)
def test_protected_paths_are_named_with_the_pattern_as_it_was_written(
    pattern: str, path: str, *, protected: bool
) -> None:
    rules = Protection(protect=[pattern, "x"])
    expected = f'protect = "{pattern}"' if protected else ""
    assert [changed(rules, path, "x").rule, added(rules, path, "x").rule] == [
        expected,
        expected,
    ]
    assert changed(rules, path, "x").protected is protected


def test_with_protect_other_tests_may_change() -> None:
    item = changed(PROTECT, "unit/test_b.py", "tests/test_a.py")
    assert (item.kind, item.protected) == ("test", False)


def test_protect_that_matches_no_file_protects_no_less_than_no_key() -> None:
    assert changed(Protection(protect=["spec/**"]), "tests/test_a.py").protected


def test_with_editable_everything_else_is_as_at_the_start() -> None:
    base = dict.fromkeys(("src/a.py", "lib/b.py", "tests/test_a.py", "README.md"), "a")
    now = {"src/a.py": "b", "src/new.py": "a", "lib/new.py": "a", "lib/b.py": "b"}
    found = changes(EDITABLE, base, now)
    assert lines(found) == [
        "README.md (deleted; not editable)",
        "lib/b.py (changed; not editable)",
        "lib/new.py (new; not editable)",
        "tests/test_a.py (deleted; not editable)",
    ]
    assert not found["lib/b.py"].is_work
    assert found["src/a.py"].is_work


def test_editable_lets_tests_and_configuration_change_that_it_names() -> None:
    rules = Protection(editable=["src/**", "pyproject.toml"])
    assert (
        lines(changes(rules, {"src/test_a.py": "a", "pyproject.toml": "a"}, {})) == []
    )
    assert added(rules, "src/conftest.py", "src/test_a.py").protected
    assert not added(rules, "pyproject.toml", "src/test_a.py").protected


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        (EDITABLE, "src/a.py", True),
        (EDITABLE, "lib/a.py", False),
        (Protection(editable=["src/**"], allow=["lib/**"]), "lib/a.py", True),
        (DEFAULT, "lib/a.py", True),
        (PROTECT, "tests/a.py", True),
    ],
)
def test_what_is_editable(rules: Protection, path: str, *, expected: bool) -> None:
    assert rules.is_editable(path) is expected


def test_the_mode_is_the_key_that_is_set() -> None:
    assert [(rules.mode, rules.strict) for rules in (DEFAULT, PROTECT, EDITABLE)] == [
        ("default", False),
        ("protect", True),
        ("editable", True),
    ]
    assert Protection(protect=["a"], editable=["b"]).mode == "editable"


@pytest.mark.parametrize(
    "keys", [{}, {"protect": ["tests/**"]}, {"editable": ["src/**"]}], ids=str
)
def test_allow_takes_paths_out_and_says_which(keys: dict[str, list[str]]) -> None:
    rules = Protection(
        keys.get("protect", ()),
        keys.get("editable", ()),
        allow=["tests/data/**", "conftest.py", "docs/"],
    )
    base = dict.fromkeys(
        ("tests/test_a.py", "tests/data/a.json", "conftest.py", "docs/a.md"), "a"
    )
    found = changes(rules, base, dict.fromkeys(base, "b"))
    assert [item.path for item in found.values() if item.protected] == [
        "tests/test_a.py"
    ]
    assert [item.path for item in found.values() if item.allowed] == [
        "conftest.py",
        "docs/a.md",
        "tests/data/a.json",
    ]
    assert bool(found["docs/a.md"].rule) is (
        rules.mode == "editable"
    )  # the label is about checks
    assert found["docs/a.md"].is_work


def test_setup_protects_what_it_installs_from() -> None:
    base = dict.fromkeys(
        ("requirements.txt", "uv.lock", "web/package-lock.json", "README.md"), "a"
    )
    found = changes(Protection(["tests/"], setup=True), base, {})
    assert [item.rule for item in found.values() if item.protected] == [
        "installed from by setup"
    ] * 3
    assert not any(
        item.protected for item in changes(Protection(setup=True), base, {}).values()
    )
    (script,) = changes(
        Protection(setup=True), {"setup.py": "a"}, {"setup.py": "b"}
    ).values()
    assert (script.rule, script.protected) == ("installed from by setup", True)
    assert added(Protection(setup=True), "requirements.txt", "a.py").is_work


# -- names, links, ignored files -----------------------------------------------------------------------------------------


@given(st.text(alphabet="ab*?[]! #\\-.", min_size=1, max_size=8))
def test_a_script_is_itself_and_no_pattern(name: str) -> None:
    rules = Protection(scripts={f"d/{name}": SCRIPT})
    assert rules.describe(f"d/{name}").rule == SCRIPT
    assert rules.describe(f"d/{name}bb").rule == ""
    assert rules.describe(f"e/{name}").rule == ""


@given(
    st.sampled_from(
        ["tests/tést.py", "Tests/Test_A.py", "conftest.py", "straße/test_a.py"]
    ),
    st.data(),
)
def test_one_name_in_another_case_or_form_of_unicode_has_the_same_rule(
    path: str, data: st.DataObject
) -> None:
    form: Literal["NFC", "NFD"] = data.draw(st.sampled_from(["NFC", "NFD"]))
    other = "".join(
        data.draw(st.sampled_from([letter, letter.upper(), letter.lower()]))
        for letter in path
    )
    spelled = unicodedata.normalize(form, other)
    for rules in (DEFAULT, PROTECT, Protection(scripts={path: SCRIPT})):
        assert (
            changed(rules, spelled, "tests/x").rule
            == changed(rules, path, "tests/x").rule
        )


def test_what_a_link_to_a_folder_of_tests_leads_to_is_protected() -> None:
    base = {
        "tests": "-> suite",
        "suite/test_a.py": "a",
        "suite/deep/b.json": "a",
        "other/c.py": "a",
    }
    now = {"tests": "-> suite"}
    assert lines(changes(DEFAULT, base, now)) == [
        "suite/deep/b.json (deleted; existing test)",
        "suite/test_a.py (deleted; existing test)",
    ]
    assert lines(changes(PROTECT, base, now)) == [
        "suite/deep/b.json (deleted; existing test)",
        "suite/test_a.py (deleted; existing test)",
    ]


def test_tests_that_were_collected_through_links_are_protected_where_they_are() -> None:
    base = {
        "unit": "-> one",
        "one": "-> two/three",
        "two/three/check_a.py": "a",
        "two/free.py": "a",
        "cfg/p": "a",
    }
    base |= {"pytest.ini": "-> cfg/p"}
    found = changes(
        DEFAULT,
        base,
        {"unit": "-> one", "one": "-> two/three"},
        seen("unit/check_a.py"),
    )
    assert lines(found) == [
        "cfg/p (deleted; existing configuration of checks)",
        "pytest.ini (deleted; existing configuration of checks)",
        "two/three/check_a.py (deleted; existing test)",
    ]


@pytest.mark.parametrize("target", ["/etc", "../outside", "..", ".", "../../x"])
def test_links_that_lead_out_and_to_the_workspace_itself_are_not_followed(
    target: str,
) -> None:
    assert StartFiles(["tests"], {"tests": target}).links == {}


def test_links_that_lead_to_each_other_end() -> None:
    start = StartFiles(["tests", "a", "b"], {"tests": "a", "a": "b", "b": "a"})
    assert set(start.names_of("b/x")) >= {"b/x", "a/x", "tests/x"}


def test_a_folder_of_tests_that_became_a_link() -> None:
    found = changes(DEFAULT, {"tests/test_a.py": "a"}, {"tests": "-> elsewhere"})
    assert lines(found) == ["tests/test_a.py (deleted; existing test)"]
    assert not found["tests"].is_work


def test_a_protected_file_that_became_a_folder() -> None:
    rules = Protection(scripts={"check.sh": SCRIPT})
    assert lines(changes(rules, {"check.sh": "a"}, {"check.sh/evil": "b"})) == [
        f"check.sh (deleted; {SCRIPT})"
    ]


def test_new_caches_of_bytecode_are_no_checks() -> None:
    assert added(PROTECT, "tests/__pycache__/test_calc.pyc", "tests/test_a.py").is_work


def test_a_changed_path_reads_as_one_line() -> None:
    assert str(ChangedPath("a", "new", "test", "r")) == "a (new; r)"
    assert str(ChangedPath("a", "changed", "data")) == "a (changed)"


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"protect": ["tests/**", "!tests/b.py"]},
        {"editable": ["src/*", "!src/b.py"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("allow", [(), ("tests/a.py", "src/b.py")])
@pytest.mark.parametrize("setup", [False, True])
@pytest.mark.parametrize(
    "observed",
    [ObservedChecks(), seen("x/check_c.py"), ObservedChecks(tools=frozenset({"ruff"}))],
)
def test_the_protected_paths_of_a_start_are_those_whose_change_is_protected(
    keys: dict[str, list[str]],
    allow: tuple[str, ...],
    observed: ObservedChecks,
    *,
    setup: bool,
) -> None:
    paths = [
        "src/a.py",
        "src/b.py",
        "src/c.py",
        "tests/a.py",
        "tests/b.py",
        "x/y",
        "x/Tests/É.py",
        "package.json",
    ]
    paths += [
        "goal.toml",
        "requirements.txt",
        ".gitignore",
        "sub/Makefile",
        "README.md",
        "x/check_c.py",
        "next.config.js",
    ]
    paths += [
        "sitecustomize.py",
        "a.snap",
        "far/z.py",
        "tox.ini",
        "ruff.toml",
        "expected/a",
        "src/x_test.py",
    ]
    scripts = {
        "goal.toml": GOAL_FILE,
        "src/a.py": f"{USED} v",
        "x/y": f"{BEFORE} v",
        "src/c.py": SCRIPT,
    }
    start = StartFiles([*paths, "tests/link"], {"tests/link": "../far"})
    rules = Protection(
        keys.get("protect", ()), keys.get("editable", ()), allow, scripts, setup=setup
    )
    rules = rules.with_observed(observed, start)
    expected = {path for path in start.paths if rules.describe(path).protected}
    assert rules.protected() == expected
