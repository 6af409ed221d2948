"""Which changes of a test are its formatting alone."""

from __future__ import annotations

import pytest

from goalrunner.checking.formatting import is_reformatted

TEST = "from calc   import add\n\ndef test_add( ):\n  assert add( 1,'a' )==3  # noqa: E711\n"
FORMATTED = (
    "from calc import add\n\n\ndef test_add():\n"
    '    assert add(1, "a") == 3  # noqa: E711\n'
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TEST, FORMATTED),
        ("x = f(1, 2)\n", "x = f(\n    1,\n    2,\n)\n"),
        ("assert a and b\n", "assert (\n    a\n    and b\n)\n"),
        ('x = "\\d"\n', "x = '\\d'\n"),
        ("# first\nx = 1\n", "\n\n# first\nx = 1\r\n"),
    ],
)
def test_lines_quotes_and_brackets_are_formatting(old: str, new: str) -> None:
    assert is_reformatted(old.encode(), new.encode())
    assert is_reformatted(new.encode(), old.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FORMATTED, FORMATTED.replace("== 3", "== 4")),
        (FORMATTED, FORMATTED.replace("assert add", "add")),
        (FORMATTED, FORMATTED.replace("  # noqa: E711", "")),
        (FORMATTED, FORMATTED.replace("add\n", "add  # noqa\n", 1)),
        # The same comments on other lines.
        ("import os  # noqa\nimport re\n", "import os\nimport re  # noqa\n"),
        ("import os\n# noqa\n", "import os  # noqa\n"),
        ("import os\nimport re  # noqa\n", "import os; import re  # noqa\n"),
        ("x = (1)\n", "x = (1,)\n"),
        ('"""\n>>> 1\n1\n"""\n', '"""\n>>> 1\n2\n"""\n'),
        ("if a:\n    b\n    c\n", "if a:\n    b\nc\n"),
        ("def f(:\n", "def f( :\n"),
        ("x = 1\0\n", "x  = 1\0\n"),
    ],
)
def test_everything_else_is_a_change_of_the_test(old: str, new: str) -> None:
    assert not is_reformatted(old.encode(), new.encode())


def test_a_new_or_deleted_test_is_not_reformatted() -> None:
    assert not is_reformatted(None, b"x = 1\n")
    assert not is_reformatted(b"x = 1\n", None)
    assert not is_reformatted(b"-> a.py", b"-> b.py")
