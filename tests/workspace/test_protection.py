"""Which paths are protected, by which rule, and which of them were touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.workspace.entry import Entry
from goalrunner.workspace.protection import Protection, touched


def files(**contents: str) -> dict[str, Entry]:
    """Entries by path: `tests__test_a` is tests/test_a.py; a value that starts with "->" is a link."""
    found = {}
    for name, content in contents.items():
        path = name.replace("__", "/")
        mode = "120000" if content.startswith("->") else "100644"
        found[path if mode == "120000" else f"{path}.py"] = Entry(mode, content)
    return found


def at(path: str, content: str = "x", mode: str = "100644") -> dict[str, Entry]:
    return {path: Entry(mode, content)}


def said(protection: Protection, base: dict[str, Entry], now: dict[str, Entry]) -> list[str]:
    return [str(entry) for entry in touched(protection, base, now)]


TESTS = Protection(protect=["tests/**"])


@pytest.mark.parametrize(
    ("protect", "path", "why"),
    [
        ("tests/**", "tests/test_a.py", 'protect = "tests/**"'),
        ("tests/**", "tests/deep/test_a.py", 'protect = "tests/**"'),
        ("./tests/", "tests/test_a.py", 'protect = "./tests/"'),
        ("tests", "tests/test_a.py", 'protect = "tests"'),
        ("tests/**", "src/tests/a.py", None),
        ("*.test.js", "src/a.test.js", 'protect = "*.test.js"'),
        ("/check.sh", "check.sh", 'protect = "/check.sh"'),
        ("/check.sh", "sub/check.sh", None),
        ("tests/**", "Tests/TEST_A.py", 'protect = "tests/**"'),  # one name on some file systems
        ("t\u00e9sts/**", "te\u0301sts/a.py", 'protect = "t\u00e9sts/**"'),
    ],
)
def test_the_rule_is_named(protect: str, path: str, why: str | None) -> None:
    assert Protection(protect=[protect]).why(path) == why


def test_allow_takes_a_path_out_but_never_what_is_always_protected() -> None:
    protection = Protection(
        protect=["tests/**"],
        allow=["pyproject.toml", "tests/data/**", "check.sh"],
        always={"check.sh": 'named by validator "check"'},
    )

    assert protection.why("pyproject.toml") is None
    assert protection.why("tests/data/a.json") is None
    assert protection.why("tests/test_a.py") == 'protect = "tests/**"'
    assert protection.why("check.sh") == 'named by validator "check"'
    assert protection.lift("check.sh") == ""
    assert protection.lift("tests/test_a.py") == '[workspace] allow = ["tests/test_a.py"]'


def test_without_protect_only_what_is_always_protected_is() -> None:
    protection = Protection(always={"goal.toml": "the goal file"})

    assert protection.why("goal.toml") == "the goal file"
    assert protection.why("conftest.py") is None
    assert said(protection, {}, at("pytest.py") | at("conftest.py")) == []
    assert said(protection, at("goal.toml", "a"), at("goal.toml", "b")) == ["goal.toml was changed; the goal file"]


@given(st.text(alphabet="ab*?[]! #\\-.", min_size=1, max_size=8))
def test_an_always_protected_path_is_itself_and_no_pattern(name: str) -> None:
    protection = Protection(always={f"d/{name}": "named"})

    assert protection.why(f"d/{name}") == "named"
    assert protection.why(f"d/{name}b") is None
    assert protection.why(name) is None


def test_touched_paths_are_named_with_what_happened_to_them() -> None:
    base = files(tests__test_a="1", tests__test_b="1", src__a="1")
    now = files(tests__test_a="2", tests__test_c="1", src__a="2", src__new="1", other__test_d="1")

    assert said(TESTS, base, now) == [
        'tests/test_a.py was changed; protect = "tests/**"',
        'tests/test_b.py was deleted; protect = "tests/**"',
        'tests/test_c.py was planted; protect = "tests/**"',
    ]


def test_a_changed_mode_is_a_change() -> None:
    base, now = at("tests/run.sh"), at("tests/run.sh", mode="100755")

    assert said(TESTS, base, now) == ['tests/run.sh was changed; protect = "tests/**"']


def test_a_folder_that_became_a_link() -> None:
    assert said(TESTS, files(tests__test_a="1"), files(tests="->/elsewhere")) == [
        'tests was planted; protect = "tests/**"',
        'tests/test_a.py was deleted; protect = "tests/**"',
    ]


def test_a_new_link_where_protected_files_would_stand() -> None:
    assert said(TESTS, {}, files(tests="->src/fake")) == ['tests was planted; protect = "tests/**"']


def test_a_link_further_up_that_stands_in_the_way() -> None:
    deep = Protection(protect=["a/b/tests/*.py"])

    assert said(deep, files(a__b__tests__t="1"), files(a="->x") | at("x/b/tests/t.py")) == [
        'a was planted; protect = "a/b/tests/*.py"',
        'a/b/tests/t.py was deleted; protect = "a/b/tests/*.py"',
    ]


def test_a_protected_file_that_became_a_folder() -> None:
    protection = Protection(always={"check.sh": "named by validator"})

    assert said(protection, at("check.sh"), at("check.sh/evil") | at("check.shx")) == [
        "check.sh was deleted; named by validator",
        "check.sh/evil was planted; named by validator",
    ]


def test_a_shadow_counts_only_when_planted() -> None:
    planted = at("pytest.py") | at("tests/os.py") | at("pytest", mode="100755")
    assert said(Protection(protect=["tests/test_*"]), files(tests__test_a="1"), planted | files(tests__test_a="1")) == [
        "pytest was planted; shadows the program pytest",
        "pytest.py was planted; shadows the module pytest",
        "tests/os.py was planted; shadows the module os",
    ]
    assert said(TESTS, at("pytest.py", "old"), at("pytest.py", "new")) == []
    assert said(TESTS, at("types.py"), at("types/__init__.py") | at("types/more.py")) == []


def test_allow_takes_a_shadow_out() -> None:
    assert said(Protection(protect=["tests/**"], allow=["make"]), {}, at("make", mode="100755")) == []


def test_an_environment_that_was_not_there_is_one_line() -> None:
    now = at(".venv/pyvenv.cfg") | at(".venv/lib/a/conftest.py") | at("web/node_modules/a/package.json")

    assert said(TESTS, {}, now) == [
        ".venv/ was planted; an environment that was not there at the start; use [workspace] setup or link",
        "web/node_modules/ was planted; an environment that was not there at the start; use [workspace] setup or link",
    ]


def test_what_a_protected_link_leads_to_is_protected_as_well() -> None:
    protection = TESTS.following({"tests": "suite", "suite/more": "../lib/more", "free": "src", "tests/out": "/etc"})

    assert protection.why("suite/test_a.py") == 'reached through the protected link "tests"'
    assert protection.why("lib/more/test_b.py") == 'reached through the protected link "suite/more"'
    assert protection.why("src/a.py") is None
    assert "/etc" not in protection.always


CHECK = Protection(always={"tools/check.py": 'named by validator "check"'})


@pytest.mark.parametrize(
    ("planted", "before"),
    [
        ("tools/check/__init__.py", "tools/check.py"),
        ("tools/check/__init__.pyc", "tools/check.py"),
        ("tools/check.so", "tools/check.py"),
        ("tools/check.cpython-311-x86_64-linux-gnu.so", "tools/check.py"),
        ("tools/check.pyd", "tools/check.py"),
        ("tools.py", "the folder tools/"),
        ("tools.pyc", "the folder tools/"),
        ("tools.abi3.so", "the folder tools/"),
        ("tools/__init__.py", "the folder tools/"),
    ],
)
def test_what_python_finds_before_a_check_is_planted_even_without_protect(planted: str, before: str) -> None:
    base = at("tools/check.py")

    assert said(CHECK, base, base | at(planted)) == [f"{planted} was planted; shadows {before}"]


@pytest.mark.parametrize(
    "planted",
    [
        "tools/check/data.json",  # without an __init__, check.py is found
        "tools/check/__main__.py",
        "tools/check.pyc",  # found after check.py
        "tools/check.test.py",
        "tools/other.py",
        "check.py",
        "tools/json.py",  # shadows of the library count with `protect` alone
    ],
)
def test_what_python_finds_after_a_check_is_free(planted: str) -> None:
    base = at("tools/check.py")

    assert said(CHECK, base, base | at(planted)) == []


def test_a_link_to_a_package_is_found_before_a_check() -> None:
    base = at("tools/check.py")

    assert said(CHECK, base, base | at("tools/check", mode="120000")) == [
        "tools/check was planted; shadows tools/check.py"
    ]


def test_a_module_before_a_protected_folder() -> None:
    base = at("tests/test_a.py")
    assert said(TESTS, base, base | at("tests.py")) == ["tests.py was planted; shadows the folder tests/"]

    package = base | at("tests/__init__.py")
    assert said(TESTS, package, package | at("tests.py")) == []


def test_a_package_made_of_a_folder_that_holds_more_than_tests_is_honest_work() -> None:
    beside = Protection(protect=["*_test.py"])
    mixed, tests = at("src/a.py") | at("src/a_test.py"), at("checks/a_test.py")

    assert said(beside, mixed, mixed | at("src/__init__.py")) == []
    assert said(beside, tests, tests | at("checks/__init__.py")) == [
        "checks/__init__.py was planted; shadows the folder checks/"
    ]


def test_beside_the_script_of_a_check_every_name_of_the_library_is_a_shadow() -> None:
    script = Protection(["tests/**"], always={"tools/check.py": "named", "bin/look": "named", "run.sh": "named"})
    base = at("tools/check.py") | at("bin/look", mode="100755") | at("run.sh", mode="100755")
    planted = at("tools/csv.py") | at("bin/queue/__init__.py") | at("calendar.py") | at("tools/random", mode="120000")

    assert said(script, base, base | planted) == [
        "bin/queue/__init__.py was planted; shadows the module queue",
        "tools/csv.py was planted; shadows the module csv",
        "tools/random was planted; shadows the module random",
    ]


def test_a_check_within_a_package_is_run_from_the_folder_above_it() -> None:
    named = {"tools/check.py": "named", "tools/__init__.py": "named"}
    base = at("tools/check.py") | at("tools/__init__.py")
    module = Protection(["tests/**"], always=named)

    assert said(module, base, base | at("csv.py") | at("tools/csv.py")) == [
        "csv.py was planted; shadows the module csv"
    ]


def test_allow_takes_out_what_is_found_first() -> None:
    base = at("checks.py")
    free = Protection(allow=["checks/**"], always={"checks.py": "named"})

    assert said(free, base, base | at("checks/__init__.py")) == []


def test_a_module_that_is_run_is_found_from_its_root_and_so_is_what_it_imports() -> None:
    always = {"tools/check.py": 'named by validator "check"'}
    as_script = Protection(protect=["tests/**"], always=always)
    as_module = Protection(protect=["tests/**"], always=always, roots=[""])
    base = at("tools/check.py")

    assert said(as_script, base, base | at("calendar.py")) == []  # what a goal may well ask for
    assert said(as_module, base, base | at("calendar.py") | at("tools/calendar.py") | at("docs/csv.py")) == [
        "calendar.py was planted; shadows the module calendar",
        "tools/calendar.py was planted; shadows the module calendar",
    ]
    assert said(as_module.following({}), base, base | at("random/__init__.py")) == [
        "random/__init__.py was planted; shadows the module random"
    ]
