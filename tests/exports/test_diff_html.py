"""Patches as files and coloured lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.exports.diff_html import diff_html
from goalrunner.reports.patches import files_of

PATCH = '''\
diff --git a/parser.py b/parser.py
index 814f4a4..f04eb26 100644
--- a/parser.py
+++ b/parser.py
@@ -1,3 +1,3 @@
 def parse(text):
-    """Text."""
+    """Read
     return None
\\ No newline at end of file
diff --git a/logo.png b/logo.png
index 814f4a4..f04eb26 100644
Binary files a/logo.png and b/logo.png differ
'''


def test_lines_keep_their_kind_and_code_has_colours() -> None:
    (code, picture), left_out = files_of(PATCH, 100)
    assert (code.path, code.added, code.removed, left_out) == ("parser.py", 1, 1, 0)
    assert [kind for kind, _ in code.lines] == ["@", " ", "-", "+", " ", ""]
    coloured = [html for _, html in diff_html(code)]
    assert coloured[1] == '<i class="k">def</i> <i class="nf">parse</i>(text):'
    assert coloured[3].strip() == '<i class="s2">"""Read</i>'
    assert (picture.path, picture.binary, picture.lines) == ("logo.png", True, [])


def test_lines_beyond_the_limit_are_counted() -> None:
    (code, picture), left_out = files_of(PATCH, 2)
    assert (len(code.lines), left_out) == (2, 4)
    assert (code.added, code.removed, picture.binary) == (1, 1, True)


@given(
    st.sampled_from(["py", "html", "md", "yml", "js", "toml", "none", "c"]),
    st.lists(
        st.text(st.characters(exclude_characters="\n"), max_size=30),
        min_size=1,
        max_size=8,
    ),
)
def test_no_lexer_adds_or_removes_a_line(suffix: str, lines: list[str]) -> None:
    body = "".join(f"+{line}\n" for line in lines)
    patch = f"diff --git a/x.{suffix} b/x.{suffix}\n@@ -0,0 +1,{len(lines)} @@\n{body}"
    ((file,), left_out) = files_of(patch, 100)
    assert ([kind for kind, _ in diff_html(file)], left_out) == (
        ["@"] + ["+"] * len(lines),
        0,
    )


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("name é 漢.txt", "name é 漢.txt"),
        ('"we\\nird \\t é 漢.txt"', "we\\x0aird \\x09 é 漢.txt"),
        ('"\\303\\251\\".txt"', 'é".txt'),
    ],
)
def test_the_path_of_a_file_is_that_of_its_change(written: str, path: str) -> None:
    old, new = (
        written.replace('"', f'"{side}/', 1)
        if written[0] == '"'
        else f"{side}/{written}"
        for side in "ab"
    )
    patch = f"diff --git {old} {new}\nnew file mode 100644\nindex 0000000..e69de29\n"
    assert [file.path for file in files_of(patch)[0]] == [path]
