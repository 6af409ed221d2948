"""Suppressions that a diff adds."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.checking.suppressions import count_suppressions


def diff(old: str, new: str, path: str = "a.py") -> str:
    rows = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm=""
    )
    return "\n".join((f"diff --git a/{path} b/{path}", *rows)) + "\n"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "import x  # noqa"),
        ("a.py", "import x  #noqa: F401"),
        ("a.py", "x: int = f()  # type: ignore[assignment]"),
        ("a.py", "# mypy: ignore-errors"),
        ("a.py", "if x:  # pragma: no cover"),
        ("a.py", "x()  # nosec B101"),
        ("test_a.py", "@pytest.mark.skip(reason='x')"),
        ("test_a.py", "@pytest.mark.xfail"),
        ("test_a.py", "pytestmark = pytest.mark.skipif(True)"),
        ("test_a.py", "    pytest.skip('x')"),
        ("test_a.py", "@unittest.skip"),
        ("test_a.py", "@skipUnless(a, 'b')"),
        ("test_a.py", "        self.skipTest('x')"),
        ("a.ts", "// @ts-ignore"),
        ("a.ts", "// @ts-expect-error: later"),
        ("a.js", "/* eslint-disable no-eval */"),
        ("a.js", "x(); // eslint-disable-line"),
        ("a.test.js", "it.skip('a', () => {})"),
        ("a.test.js", "describe.each([1]).skip('a')"),
        ("a.test.js", "xit('a', () => {})"),
        ("a.test.js", "test('a', { skip: true }, () => {})"),
        ("a.rs", "#[allow(dead_code)]"),
        ("a.rs", "#![allow(unused)]"),
        ("a.rs", "#[ignore]"),
        ("a.go", "x() //nolint:errcheck"),
        ("a_test.go", "\tt.Skip()"),
        ("A.java", '@SuppressWarnings("unchecked")'),
        ("A.java", "@Disabled"),
        ("a.sh", "# shellcheck disable=SC2086"),
        ("a.rb", "x # rubocop:disable Style/X"),
    ],
)
def test_a_suppression_counts(path: str, line: str) -> None:
    assert count_suppressions(diff("a\nb", f"a\n{line}\nb", path)) == 1
    assert count_suppressions(diff("", line, path)) == 1
    assert count_suppressions(diff(f"a\n{line}\nb", "a\nb", path)) == 0
    assert count_suppressions(diff(line, f"{line} ", path)) == 0


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "x = 'allow'"),
        ("a.py", "noqa = 1"),
        ("a.py", "skip = it.skip_all"),
        ("a.py", "def skip(): ..."),
        ("a.py", "itertools.islice(x)"),
        ("a.js", "exit(1)"),
        ("a.js", "const t = list.todo"),
        ("README.md", "Write `# noqa` behind it."),
        ("notes.txt", "@pytest.mark.skip"),
    ],
)
def test_other_lines_do_not_count(path: str, line: str) -> None:
    assert count_suppressions(diff("a", f"a\n{line}", path)) == 0


def test_a_line_that_moves_adds_none() -> None:
    line = "import x  # noqa"
    assert count_suppressions(diff(line, "", "a.py") + diff("", line, "b.py")) == 0
    assert (
        count_suppressions(diff(line, "", "a.py") + diff("", f"{line}\n{line}", "b.py"))
        == 1
    )
    far = "\n".join(map(str, range(20)))
    assert count_suppressions(diff(f"{line}\n{far}", f"{far}\n{line}")) == 0


def test_an_edited_line_keeps_its_suppression() -> None:
    assert count_suppressions(diff("f(a)  # noqa", "f(b)  # noqa")) == 0
    assert count_suppressions(diff("f(a)  # noqa", "f(b)  # type: ignore")) == 1


def test_lines_that_look_like_headers_are_lines() -> None:
    assert count_suppressions(diff("-- x", "++ x  # noqa\n++ b/notes.txt\n# noqa")) == 2


_LINES = st.lists(
    st.sampled_from(
        ["a", "# noqa", "b  # noqa", "++ x", "-- y", "@@ -1 +1 @@", "diff --git a b"]
    ),
    max_size=8,
)


def test_long_lines_are_read_in_time() -> None:
    line = "/*;" * 200_000
    assert count_suppressions(diff("", f"{line} noqa\n# noqa")) == 2


@pytest.mark.parametrize(
    "line",
    ["import os\f# noqa", f"{'x' * 3000}  # noqa", "import os  # ruff: disable[F401]"],
)
def test_a_suppression_hides_in_no_line(line: str) -> None:
    assert count_suppressions(diff("import os", line)) == 1


@given(_LINES, _LINES)
def test_no_more_are_added_than_the_new_text_has(
    old: list[str], new: list[str]
) -> None:
    count = count_suppressions(diff("\n".join(old), "\n".join(new)))
    assert 0 <= count <= sum("noqa" in line for line in new)
    assert count >= sum("noqa" in line for line in new) - sum(
        "noqa" in line for line in old
    )


@given(st.text(max_size=80))
def test_any_text_is_read(text: str) -> None:
    assert count_suppressions(text) >= 0


def test_a_file_that_was_renamed_adds_nothing() -> None:
    text = "import x  # noqa\n"
    removed = diff(text, "").replace("+++ b/a.py", "+++ /dev/null")
    added = diff("", text, "b.py").replace("--- a/b.py", "--- /dev/null")

    assert count_suppressions(removed + added) == 0
    assert count_suppressions(added + removed) == 0
    assert count_suppressions(added) == 1
