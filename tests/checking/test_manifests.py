"""The part of a manifest that steers checks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.checking.manifests import added_commands, check_part

NAMES = ("pyproject.toml", "package.json", "Cargo.toml", "setup.cfg")


def steers(path: str, old: str | None, new: str | None) -> bool:
    """Whether the change from one content to another concerns checks."""
    before, after = (None if text is None else text.encode() for text in (old, new))
    return check_part(path, before) != check_part(path, after)


PYPROJECT = '[project]\nname = "a"\ndependencies = []\n[tool.pytest.ini_options]\naddopts = "-q"\n[tool.hatch]\nx = 1\n'
PACKAGE = '{"name": "a", "dependencies": {}, "scripts": {"test": "jest"}, "jest": {"bail": 1}}'
CARGO = '[package]\nname = "a"\n[dependencies]\n[profile.test]\nopt-level = 1\n'
TOX = "[testenv]\ndeps = a\ncommands = pytest\n"
SETUP = "[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n[options]\npackages = a\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[console_scripts]\nx = x.main:run\n", False),
        ("[pytest11]\nevil = evil\n", True),
        ("[console_scripts]\nx = x:run\n[pytest11]\nevil = evil\n", True),
        ("[pytest11\nevil", True),
    ],
)
def test_an_installed_package_steers_checks_only_as_a_plugin_of_pytest(
    content: str, expected: bool
) -> None:
    assert steers("src/x.egg-info/entry_points.txt", None, content) == expected


@pytest.mark.parametrize(
    ("path", "content", "old", "new", "expected"),
    [
        (
            "pyproject.toml",
            PYPROJECT,
            "dependencies = []",
            'dependencies = ["x"]',
            False,
        ),
        ("pyproject.toml", PYPROJECT, 'name = "a"', 'name = "b"', False),
        ("pyproject.toml", PYPROJECT, "x = 1", "x = 2", False),
        ("pyproject.toml", PYPROJECT, '"-q"', '"-q --co"', True),
        ("pyproject.toml", PYPROJECT, "[tool.hatch]\n", "[tool.ruff]\n", True),
        ("pyproject.toml", PYPROJECT, "[tool.hatch]\n", "[tool.pytest_env]\n", True),
        (
            "pyproject.toml",
            PYPROJECT,
            "[tool.hatch]\n",
            "[tool.poetry.dependencies]\n",
            False,
        ),
        ("pyproject.toml", PYPROJECT, "[tool.hatch]\n", "[dependency-groups]\n", False),
        ("pyproject.toml", PYPROJECT, "[tool.hatch]\n", "[project.scripts]\n", False),
        (
            "pyproject.toml",
            PYPROJECT,
            "[tool.hatch]\n",
            "[project.entry-points.pytest11]\n",
            True,
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            "[tool.hatch]\n",
            "[tool.hatch.envs.test.scripts]\n",
            True,
        ),
        ("pyproject.toml", PYPROJECT, "[tool.hatch]\n", "[tool.pdm.scripts]\n", True),
        ("sub/PyProject.toml", PYPROJECT, '"-q"', '"-q --co"', True),
        ("pyproject.toml", PYPROJECT, '"-q"', '"-q', True),  # no TOML any more
        (
            "package.json",
            PACKAGE,
            '"dependencies": {}',
            '"dependencies": {"x": "1"}',
            False,
        ),
        ("package.json", PACKAGE, '"name": "a"', '"name": "b"', False),
        ("package.json", PACKAGE, '"test": "jest"', '"test": "true"', True),
        ("package.json", PACKAGE, '"bail": 1', '"bail": 0', True),
        ("package.json", PACKAGE, '"name": "a"', '"type": "module"', True),
        (
            "package.json",
            PACKAGE,
            '"name": "a"',
            '"exports": {".": "./a.js"}, "workspaces": ["x"]',
            False,
        ),
        ("package.json", PACKAGE, '"name": "a"', '"msw": {}', True),
        ("web/package.json", PACKAGE, '"jest": {"bail": 1}', '"mocha": {}', True),
        ("Cargo.toml", CARGO, "[dependencies]\n", '[dependencies]\nx = "1"\n', False),
        ("Cargo.toml", CARGO, "opt-level = 1", "opt-level = 2", True),
        (
            "Cargo.toml",
            CARGO,
            "[dependencies]\n",
            '[[test]]\nname = "t"\nharness = false\n',
            True,
        ),
        (
            "Cargo.toml",
            CARGO,
            "[dependencies]\n",
            "[lints.rust]\nunused = 'allow'\n",
            True,
        ),
        ("setup.cfg", SETUP, "packages = a", "packages = b", False),
        ("setup.cfg", SETUP, "-q", "-q --co", True),
        ("setup.cfg", SETUP, "[options]\npackages = a", "[flake8]\nignore = E", True),
        ("setup.cfg", SETUP, "[options]\n", "[coverage:run]\n", True),
        ("setup.cfg", SETUP, "[options]\n", "[options.extras_require]\n", False),
        ("tox.ini", TOX, "deps = a", "deps = b", False),
        ("tox.ini", TOX, "commands = pytest", "commands = true", True),
        ("tox.ini", TOX, "[testenv]", "[pytest]\naddopts = -x\n[testenv]", True),
        (
            "pytest.ini",
            "[pytest]\n# a\n",
            "# a",
            "# b",
            True,
        ),  # any other file: its whole content
        ("conftest.py", "x = 1\n", "1", "2", True),
    ],
)
def test_what_steers_checks_and_what_does_not(
    path: str, content: str, old: str, new: str, expected: bool
) -> None:
    assert content.count(old) == 1
    assert steers(path, content, content.replace(old, new)) is expected


@pytest.mark.parametrize("path", NAMES)
def test_the_same_content_steers_equally_and_so_do_comments_and_order(
    path: str,
) -> None:
    text = {
        "pyproject.toml": PYPROJECT,
        "package.json": PACKAGE,
        "Cargo.toml": CARGO,
        "setup.cfg": SETUP,
    }[path]
    assert not steers(path, text, text)
    other = (
        json.dumps(dict(reversed(json.loads(text).items())))
        if path == "package.json"
        else f"# a comment\n{text}"
    )
    assert not steers(path, text, other)


@pytest.mark.parametrize(
    ("path", "plain", "steering"),
    [
        ("pyproject.toml", '[project]\nname = "a"\n', PYPROJECT),
        ("package.json", '{"name": "a"}', PACKAGE),
        ("Cargo.toml", '[package]\nname = "a"\n', CARGO),
        ("setup.cfg", "[metadata]\nname = a\n", SETUP),
    ],
)
def test_a_new_or_deleted_manifest_steers_only_if_it_says_something_about_checks(
    path: str, plain: str, steering: str
) -> None:
    assert not steers(path, None, plain)
    assert not steers(path, plain, None)
    assert steers(path, None, steering)
    assert steers(path, steering, None)


def test_another_file_steers_by_being_there() -> None:
    assert steers("pytest.ini", None, "")
    assert check_part("pytest.ini", b"\xff") == b"\xff"
    assert check_part("pytest.ini", None) is None


@pytest.mark.parametrize(
    ("path", "content", "keys"),
    [
        (
            "package.json",
            '{"type": "module", "prettier": {}, "scripts": {}}',
            {"prettier"},
        ),
        (
            "pyproject.toml",
            "[tool.ty]\na = 1\n[tool.mypy]\nb = 1\n[tool.pytest]\nc = 1\n",
            {"tool.ty.a", "tool.mypy.b"},
        ),
        (
            "setup.cfg",
            "[flake8]\na = 1\n[mypy-x.*]\nb = 1\n[tox]\nc = 1\n",
            {"flake8.a", "mypy-x.*.b"},
        ),
    ],
)
def test_what_is_said_to_linters(path: str, content: str, keys: set[str]) -> None:
    part = check_part(path, content.encode(), only_linters=True)
    assert isinstance(part, dict)
    assert part.keys() == keys


@given(st.sampled_from(NAMES), st.binary(max_size=200))
def test_any_content_has_a_part_that_is_equal_to_itself(
    path: str, content: bytes
) -> None:
    assert check_part(path, content) == check_part(path, content)


_TEXT = st.one_of(
    st.text(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=10,
    ).map(json.dumps),
    st.lists(
        st.sampled_from(
            [
                "[tool]",
                "tool = 1",
                "[tool.hatch]",
                "hatch = 2",
                "envs = 3",
                "[tool.pdm]",
                "pdm = []",
                "[a]",
                "x",
                "%(y)s = 1",
                "[DEFAULT]",
            ]
        ),
        max_size=5,
    ).map("\n".join),
)


@given(st.sampled_from(NAMES), _TEXT)
def test_arbitrary_text_is_read_or_taken_whole(path: str, text: str) -> None:
    part = check_part(path, text.encode(errors="surrogatepass"))
    assert isinstance(part, dict | bytes)


@given(
    st.sampled_from(NAMES),
    st.sampled_from(
        [b"[" * 100_000, b"{" * 100_000, b'{"a":' * 50_000, b"\xff", b"\0"]
    ),
)
def test_content_that_no_reader_understands_is_taken_whole(
    path: str, content: bytes
) -> None:
    assert check_part(path, content) == content


@given(
    st.dictionaries(
        st.text(st.characters(categories=["Ll"]), min_size=1, max_size=6),
        st.integers(0, 9),
        max_size=4,
    )
)
def test_every_unknown_key_of_a_package_steers(tables: dict[str, int]) -> None:
    known = (
        "name",
        "files",
        "main",
        "module",
        "bin",
        "man",
        "types",
        "os",
        "cpu",
        "pnpm",
        "volta",
    )
    other = {name: value for name, value in tables.items() if name not in known}
    assert steers(
        "package.json", PACKAGE, json.dumps({**json.loads(PACKAGE), **other})
    ) is bool(other)


def test_settings_of_a_checker_that_is_not_started_steer_nothing() -> None:
    ruff, both = (
        b"[tool.ruff]\na = 1\n",
        b"[tool.ruff]\na = 1\n[tool.coverage.run]\nb = 1\n[tool.importlinter]\nc = 1\n",
    )
    assert check_part("pyproject.toml", ruff, tools={"pytest"}) == {}
    assert check_part("pyproject.toml", ruff, tools={"ruff"}) == {"tool.ruff.a": 1}
    assert check_part("pyproject.toml", both, tools={"importlinter"}) == {
        "tool.coverage.run.b": 1,
        "tool.importlinter.c": 1,
    }


MAKE = "CC = cc\n\ntest: build\n\tpytest\n\nbuild:\n\tcc a.c\n"
LINT = ".PHONY: lint\nlint:\n\truff check .\n"


@pytest.mark.parametrize(
    ("path", "old", "new", "names"),
    [
        ("Makefile", MAKE, MAKE + LINT, {"lint"}),
        ("Makefile", MAKE, LINT + MAKE, {"lint"}),
        ("GNUmakefile", None, MAKE, set()),  # it sets a variable as well
        ("Makefile", None, LINT, {"lint"}),
        ("Makefile", MAKE, MAKE + LINT + "CC = true\n", set()),
        ("Makefile", MAKE, MAKE + LINT + "\ntest:\n\ttrue\n", set()),
        ("Makefile", MAKE, MAKE.replace("pytest", "true") + LINT, set()),
        ("Makefile", MAKE, MAKE.replace("build:", "other:"), set()),
        ("Makefile", MAKE, MAKE, set()),
        (
            "package.json",
            '{"scripts": {"a": "1"}}',
            '{"scripts": {"a": "1", "b": "2"}, "version": "2"}',
            {"b"},
        ),
        (
            "package.json",
            '{"scripts": {"a": "1"}}',
            '{"scripts": {"a": "2", "b": "2"}}',
            set(),
        ),
        (
            "package.json",
            '{"scripts": {"a": "1"}}',
            '{"scripts": {"a": "1", "b": "2"}, "jest": {"c": 1}}',
            set(),
        ),
        ("package.json", "{", '{"scripts": {"b": "2"}}', set()),
        ("conftest.py", "", "lint:\n\ttrue\n", set()),
    ],
)
def test_commands_that_a_change_adds_and_nothing_else(
    path: str, old: str | None, new: str, names: set[str]
) -> None:
    assert (
        added_commands(path, None if old is None else old.encode(), new.encode())
        == names
    )


@given(
    st.sampled_from(["Makefile", *NAMES]), st.text(max_size=60), st.text(max_size=60)
)
def test_a_change_without_added_lines_adds_no_command(
    path: str, text: str, more: str
) -> None:
    assert added_commands(path, text.encode(), text.encode()) == frozenset()
    assert isinstance(
        added_commands(path, text.encode(), (text + more).encode()), frozenset
    )


@pytest.mark.parametrize(
    ("path", "steering", "plain"),
    [
        (
            "pyproject.toml",
            '[tool.ruff]\nignore = ["E"]\n',
            '[tool.pytest.ini_options]\naddopts = "-q"\n',
        ),
        ("package.json", '{"eslintConfig": {}}', '{"scripts": {"test": "jest"}}'),
        ("setup.cfg", "[flake8]\nignore = E\n", "[tool:pytest]\naddopts = -q\n"),
    ],
)
def test_what_a_manifest_says_to_linters_alone(
    path: str, steering: str, plain: str
) -> None:
    assert (
        check_part(path, steering.encode(), only_linters=True)
        == check_part(path, steering.encode())
        != {}
    )
    assert check_part(path, plain.encode(), only_linters=True) == {}
    assert check_part("ruff.toml", b"x", only_linters=True) == b"x"
