"""Which paths have their original content in the check environment, and by which rule."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.checking import protection as rules_of
from goalrunner.checking.protection import LINK, Difference, Protection, StartFiles
from goalrunner.snapshots.objects import Entry

Files = dict[str, Entry]
DEFAULT = Protection()
PROTECT = Protection(protect=["tests/**"])
EDITABLE = Protection(editable=["src/**"])


def files(*paths: str, content: str = "a", mode: str = "100644") -> Files:
    return {path: Entry(mode, content) for path in paths}


def changed(base: Files, path: str) -> Files:
    return {**base, path: Entry("100644", "other")}


def differences(
    protection: Protection, base: Files, now: Files
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    changes = {path: (base.get(path), now.get(path)) for path in base | now if base.get(path) != now.get(path)}
    return rules_of.differences(protection, StartFiles(base), changes)


def found(protection: Protection, base: Files, now: Files) -> list[str]:
    return [str(item) for item in differences(protection, base, now)[0]]


def allowed(protection: Protection, base: Files, now: Files) -> list[str]:
    return [item.path for item in differences(protection, base, now)[1]]


# -- without protect or editable -----------------------------------------------------------------------------------------

TESTS_AND_OTHERS = [
    ("tests/test_a.py", True),
    ("tests/data/a.json", True),
    ("web/__tests__/a.js", True),
    ("web/__snapshots__/a.snap", True),
    ("e2e/login.ts", True),
    ("spec/a_spec.rb", True),
    ("src/test_a.py", True),
    ("src/a_test.py", True),
    ("app/tests.py", True),
    ("pkg/a_test.go", True),
    ("pkg/testdata/a.txt", True),
    ("src/a.test.ts", True),
    ("src/a.spec.tsx", True),
    ("src/ATest.java", True),
    ("src/ATests.cs", True),
    ("src/ATest.kt", True),
    ("src/ATest.php", True),
    ("src/a.py", False),
    ("src/contest.py", False),
    ("src/latest/a.py", False),
    ("src/attest.py", False),
    ("README.md", False),
    ("docs/testing.md", False),
    ("src/testing.py", False),
]


@pytest.mark.parametrize(("path", "is_test"), TESTS_AND_OTHERS, ids=[path for path, _ in TESTS_AND_OTHERS])
def test_tests_of_the_start_are_protected_by_default(path: str, is_test: bool) -> None:
    base = files(path)
    assert found(DEFAULT, base, changed(base, path)) == ([f"{path} (changed; existing test)"] if is_test else [])
    assert found(DEFAULT, base, {}) == ([f"{path} (deleted; existing test)"] if is_test else [])


@pytest.mark.parametrize(("path", "is_test"), TESTS_AND_OTHERS, ids=[path for path, _ in TESTS_AND_OTHERS])
def test_new_tests_are_the_agents_work(path: str, is_test: bool) -> None:
    assert found(DEFAULT, files("src/a.c"), files("src/a.c", path)) == []


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "src/conftest.py",
        "pytest.ini",
        "pyproject.toml",
        "sub/setup.cfg",
        "tox.ini",
        ".coveragerc",
        "sitecustomize.py",
        "package.json",
        "jest.config.mjs",
        "vitest.config.ts",
        "Makefile",
        "justfile",
        "gradle/tests.gradle",
        "gradle/wrapper/gradle-wrapper.properties",
        "buildSrc/src/main/groovy/tests.groovy",
        "phpstan-baseline.neon",
        ".rubocop_todo.yml",
        "eslint-suppressions.json",
        "Cargo.toml",
        ".cargo/config.toml",
        "phpunit.xml",
        "ruff.toml",
        "mypy.ini",
        ".flake8",
        "tsconfig.json",
        "tsconfig.app.json",
        ".eslintrc.json",
        "eslint.config.js",
        ".golangci.yml",
    ],
)
@pytest.mark.parametrize("rules", [DEFAULT, PROTECT], ids=["default", "protect"])
def test_configuration_of_the_start_is_protected(path: str, rules: Protection) -> None:
    base = files(path, "src/a.py")
    if path == "conftest.py" or path.endswith("/conftest.py"):
        rule = "existing test" if rules is DEFAULT else "existing configuration of checks"
    else:
        rule = "existing configuration of checks"
    assert found(rules, base, changed(base, path)) == [f"{path} (changed; {rule})"]
    assert found(rules, base, files("src/a.py")) == [f"{path} (deleted; {rule})"]


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
        ("tests/other/conftest.py", None),  # no test of the start is below it
        ("src/conftest.py", None),
        ("src/Makefile", None),
        ("ruff.toml", SOURCES_OF_THE_START),
        ("src/ruff.toml", SOURCES_OF_THE_START),
        ("tests/unit/mypy.ini", SOURCES_OF_THE_START),
        ("src/package.json", SOURCES_OF_THE_START),  # it configures linters as well
        ("src/pyproject.toml", SOURCES_OF_THE_START),
        ("new/ruff.toml", None),
        ("new/pyproject.toml", None),
    ],
)
@pytest.mark.parametrize("rules", [DEFAULT, Protection(protect=["checks/**"])], ids=["default", "protect"])
def test_new_configuration_counts_where_it_takes_effect_on_what_was_there(
    path: str, rule: str | None, rules: Protection
) -> None:
    base = files("src/a.py", "tests/unit/test_a.py")
    assert found(rules, base, {**base, **files(path)}) == ([f"{path} (new; {rule})"] if rule else [])


def test_in_a_project_without_tests_new_configuration_is_the_agents_work() -> None:
    base = files("src/a.py")
    assert found(DEFAULT, base, {**base, **files("pytest.ini", "tests/conftest.py", "tests/test_a.py")}) == []


# -- protect -------------------------------------------------------------------------------------------------------------


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
def test_protected_paths_are_named_with_the_pattern_as_it_was_written(pattern: str, path: str, protected: bool) -> None:
    rules, base = Protection(protect=[pattern]), files(path)
    rule = f'protect = "{pattern}"'
    assert found(rules, base, changed(base, path)) == ([f"{path} (changed; {rule})"] if protected else [])
    assert found(rules, base, {}) == ([f"{path} (deleted; {rule})"] if protected else [])
    assert found(rules, {}, base) == ([f"{path} (new; {rule})"] if protected else [])


def test_with_protect_other_tests_may_change() -> None:
    base = files("tests/test_a.py", "unit/test_b.py")
    assert found(PROTECT, base, changed(base, "unit/test_b.py")) == []


def test_a_changed_mode_is_a_change() -> None:
    base = files("tests/run.sh")
    assert found(DEFAULT, base, files("tests/run.sh", mode="100755")) == ["tests/run.sh (changed; existing test)"]


@pytest.mark.parametrize("rules", [DEFAULT, PROTECT, EDITABLE], ids=["default", "protect", "editable"])
def test_what_is_unchanged_is_no_difference(rules: Protection) -> None:
    base = files("tests/test_a.py", "src/a.py", "pyproject.toml", "README.md")
    assert differences(rules, base, dict(base)) == ((), ())


def test_differences_are_sorted() -> None:
    base = files("tests/b.py", "tests/a.py", "conftest.py")
    assert [item.path for item in differences(PROTECT, base, {})[0]] == ["conftest.py", "tests/a.py", "tests/b.py"]


# -- editable ------------------------------------------------------------------------------------------------------------


def test_with_editable_everything_else_is_as_at_the_start() -> None:
    base = files("src/a.py", "lib/b.py", "tests/test_a.py", "README.md")
    now = {**files("src/a.py", content="b"), **files("src/new.py", "lib/new.py"), **files("lib/b.py", content="b")}
    assert found(EDITABLE, base, now) == [
        "README.md (deleted; not editable)",
        "lib/b.py (changed; not editable)",
        "lib/new.py (new; not editable)",
        "tests/test_a.py (deleted; not editable)",
    ]


def test_editable_lets_tests_and_configuration_change_that_it_names() -> None:
    rules = Protection(editable=["src/**", "pyproject.toml"])
    base = files("src/test_a.py", "pyproject.toml")
    assert found(rules, base, {}) == []


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
def test_what_is_editable(rules: Protection, path: str, expected: bool) -> None:
    assert rules.is_editable(path) is expected


def test_the_mode_is_the_key_that_is_set() -> None:
    assert [(rules.mode, rules.strict) for rules in (DEFAULT, PROTECT, EDITABLE)] == [
        ("default", False),
        ("protect", True),
        ("editable", True),
    ]
    assert Protection(protect=["a"], editable=["b"]).mode == "editable"


# -- allow, scripts, setup -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [{}, {"protect": ["tests/**"]}, {"editable": ["src/**"]}], ids=str)
def test_allow_takes_paths_out_and_says_which(keys: dict[str, list[str]]) -> None:
    rules = Protection(keys.get("protect", ()), keys.get("editable", ()), allow=["tests/data/**", "conftest.py"])
    base = files("tests/test_a.py", "tests/data/a.json", "conftest.py")
    now = {path: Entry("100644", "b") for path in base}
    assert [item.path for item in differences(rules, base, now)[0]] == ["tests/test_a.py"]
    assert allowed(rules, base, now) == ["conftest.py", "tests/data/a.json"]


def test_what_no_rule_protects_is_not_named_as_allowed() -> None:
    assert allowed(Protection(allow=["**"]), files("src/a.py"), {}) == []


def test_a_script_that_a_validator_names_is_protected_in_every_mode_unless_it_is_allowed() -> None:
    scripts = {"check.sh": 'named by validator "check"', "goal.toml": "the goal file"}
    base = files("check.sh", "goal.toml")
    for protect, editable in (((), ()), (["tests/**"], ()), ((), ["**"])):
        rules = Protection(protect, editable, scripts=scripts)
        script, goal = 'check.sh (deleted; named by validator "check")', "goal.toml (deleted; the goal file)"
        assert found(rules, base, {}) == [script, goal]
        allowing = Protection(protect, editable, allow=["check.sh", "goal.toml"], scripts=scripts)
        assert found(allowing, base, {}) == [goal]
        assert [str(item) for item in differences(allowing, base, {})[1]] == [script]


def test_files_whose_tests_ran_at_the_start_are_protected_without_a_key() -> None:
    base = files("src/check_sum.py", "src/sum.py", "tests/test_a.py")
    rules = Protection().with_tests(["src/check_sum.py", "tests/test_a.py"], StartFiles(base))
    assert found(rules, base, {}) == [
        "src/check_sum.py (deleted; its tests ran at the start)",
        "tests/test_a.py (deleted; existing test)",
    ]
    for strict in (Protection(protect=["tests/**"]), Protection(editable=["src/**"])):
        assert strict.with_tests(["src/check_sum.py"], StartFiles(base)) is strict


def test_protect_that_matches_no_file_protects_no_less_than_no_key() -> None:
    base = files("tests/test_a.py", "src/a.py")
    rules = Protection(protect=["spec/**"]).with_tests([], StartFiles(base))
    assert found(rules, base, {}) == ["tests/test_a.py (deleted; existing test)"]


@given(st.text(alphabet="ab*?[]! #\\-.", min_size=1, max_size=8))
def test_a_script_is_itself_and_no_pattern(name: str) -> None:
    rules = Protection(scripts={f"d/{name}": "named"})
    assert rules.rule(f"d/{name}") == "named"
    assert rules.rule(f"d/{name}bb") != "named"
    assert rules.rule(f"e/{name}") != "named"


def test_setup_protects_what_it_installs_from() -> None:
    base = files("requirements.txt", "uv.lock", "web/package-lock.json", "README.md")
    rules = Protection(setup=True)
    assert [item.rule for item in differences(rules, base, {})[0]] == ["installed from by setup"] * 3
    assert found(rules, files("a.py"), files("a.py", "requirements.txt")) == []
    assert found(DEFAULT, base, {}) == []


# -- names and links -----------------------------------------------------------------------------------------------------


@given(st.sampled_from(["tests/tést.py", "Tests/Test_A.py", "conftest.py", "straße/test_a.py"]), st.data())
def test_one_name_in_another_case_or_form_of_unicode_has_the_same_rule(path: str, data: st.DataObject) -> None:
    form: Literal["NFC", "NFD"] = data.draw(st.sampled_from(["NFC", "NFD"]))
    other = "".join(data.draw(st.sampled_from([letter, letter.upper(), letter.lower()])) for letter in path)
    for rules in (DEFAULT, PROTECT, Protection(scripts={path: "named"})):
        assert rules.rule(unicodedata.normalize(form, other)) == rules.rule(path)


def links(path: str, target: str) -> Files:
    return {path: Entry(LINK, target)}


def test_what_a_protected_link_leads_to_is_protected() -> None:
    rules = PROTECT.with_link_targets({"tests": "suite"})
    base = {**links("tests", "suite"), **files("suite/test_a.py", "suite/deep/b.json", "other/c.py")}
    assert found(rules, base, links("tests", "suite")) == [
        'suite/deep/b.json (deleted; reached through the protected link "tests")',
        'suite/test_a.py (deleted; reached through the protected link "tests")',
    ]


def test_links_are_followed_through_links_and_from_their_own_folder() -> None:
    rules = PROTECT.with_link_targets({"tests/data": "../one", "one": "two/three", "src/x": "../free"})
    assert rules.rule("two/three/a.json") == 'reached through the protected link "one"'
    assert rules.rule("one") == 'reached through the protected link "tests/data"'
    assert rules.rule("free/a.json") is None
    assert rules.rule("two/a.json") is None


@pytest.mark.parametrize("target", ["/etc", "../outside", "..", ".", "../../x"])
def test_links_that_lead_out_and_to_the_workspace_itself_are_not_followed(target: str) -> None:
    assert PROTECT.with_link_targets({"tests": target}) is PROTECT


def test_links_that_lead_to_each_other_end() -> None:
    rules = PROTECT.with_link_targets({"tests": "a", "a": "b", "b": "a"})
    assert rules.rule("b/x") == 'reached through the protected link "a"'


def test_following_keeps_the_other_rules() -> None:
    rules = Protection(protect=["tests/**"], allow=["suite/data/**"], scripts={"c.sh": "named"}, setup=True)
    followed = rules.with_link_targets({"tests": "suite"})
    base = files("c.sh", "suite/data/a", "suite/b", "uv.lock", "src/a.py")
    assert [item.path for item in differences(followed, base, {})[0]] == ["c.sh", "suite/b", "uv.lock"]
    assert allowed(followed, base, {}) == ["suite/data/a"]
    assert (followed.mode, followed.allowed("suite/data/a")) == ("protect", True)


def test_with_editable_links_need_not_be_followed() -> None:
    assert EDITABLE.with_link_targets({"tests": "suite"}) is EDITABLE


def test_a_folder_of_tests_that_became_a_link_is_put_back_file_by_file() -> None:
    base = files("tests/test_a.py")
    assert found(DEFAULT, base, links("tests", "elsewhere")) == ["tests/test_a.py (deleted; existing test)"]


def test_a_protected_file_that_became_a_folder() -> None:
    rules = Protection(scripts={"check.sh": "named"})
    assert found(rules, files("check.sh"), files("check.sh/evil")) == ["check.sh (deleted; named)"]


def test_a_difference_reads_as_one_line() -> None:
    assert str(Difference("a", "planted", "r")) == "a (new; r)"
    assert str(Difference("a", "changed", "r")) == "a (changed; r)"


@pytest.mark.parametrize(
    "keys", [{}, {"protect": ["tests/**", "!tests/b.py"]}, {"editable": ["src/*", "!src/b.py"]}], ids=str
)
@pytest.mark.parametrize("allow", [(), ("tests/a.py", "src/b.py")])
@pytest.mark.parametrize("setup", [False, True])
def test_the_protected_paths_of_a_start_are_those_that_have_a_rule(
    keys: dict[str, list[str]], allow: tuple[str, ...], setup: bool
) -> None:
    paths = ["src/a.py", "src/b.py", "src/c.py", "tests/a.py", "tests/b.py", "x/y", "x/Tests/É.py", "package.json"]
    paths += ["goal.toml", "requirements.txt", ".gitignore", "sub/Makefile", "README.md"]
    scripts = {"goal.toml": "the goal file", "src/a.py": f"{rules_of.COMPARED} v", "x/y": f"{rules_of.BEFORE} v"}
    below = {"src/c.py": "linked"}
    rules = Protection(keys.get("protect", ()), keys.get("editable", ()), allow, scripts, setup=setup, below=below)
    expected = {path for path in paths if rules.rule(path) and not rules.allowed(path)}
    assert rules.protected(StartFiles(paths)) == expected
