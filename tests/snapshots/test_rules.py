"""Ignore files, translated to the root of a workspace: what git says of a path there, it says of it here."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.snapshots.ignore_rules import above, below, literal
from tests.support.workspaces import git


@pytest.mark.parametrize(
    ("line", "folder", "lines"),
    [
        (b"*.log", b"", [b"*.log"]),
        (b"*.log", b"a/b", [b"/a/b/**/*.log"]),
        (b"/out", b"a", [b"/a/out"]),
        (b"x/y", b"a", [b"/a/x/y"]),
        (b"build/", b"a", [b"/a/**/build/"]),
        (b"!keep", b"a", [b"!/a/**/keep"]),
        (b"\\!odd", b"a", [b"/a/**/\\!odd"]),
        (b"trailing  ", b"", [b"trailing"]),
        (b"escaped\\ ", b"", [b"escaped\\ "]),
        (b"crlf\r", b"", [b"crlf"]),
        (b"\xef\xbb\xbfmark", b"", [b"mark"]),
        (b"# comment", b"a", []),
        (b"", b"a", []),
        (b"/", b"a", []),
        (b"x", b"we[ir]d*", [b"/we\\[ir\\]d\\*/**/x"]),
        (b"x", b"two\nlines", [b"/two?lines/**/x"]),
    ],
)
def test_a_line_of_a_folder_below(
    line: bytes, folder: bytes, lines: list[bytes]
) -> None:
    assert below(line, folder) == lines


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (b"*.log", [b"*.log"]),
        (b"/sub/ws/out", [b"/out"]),
        (b"sub/*/out/", [b"/out/"]),
        (b"/other/out", []),
        (b"sub/ws", []),
        (b"!sub/ws/keep.py", [b"!/keep.py"]),
        (b"**/out", [b"/**/out"]),
        (b"s[^x]b/\\ws/out", [b"/out"]),
    ],
)
def test_a_line_of_a_folder_above(line: bytes, lines: list[bytes]) -> None:
    assert sorted(above(line, [b"sub", b"ws"])) == sorted(lines)


def test_a_literal_path_is_no_pattern() -> None:
    assert literal(b"a[1]/*?\\") == b"a\\[1\\]/\\*\\?\\\\"


_WORDS = st.sampled_from(["a", "b", "c", "*", "a*", "**", "?"])
_PATTERNS = st.builds(
    lambda bang, lead, words, tail: bang + lead + "/".join(words) + tail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(_WORDS, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)


@given(
    st.lists(_PATTERNS, max_size=4),
    st.lists(_PATTERNS, max_size=4),
    st.lists(_PATTERNS, max_size=3),
    st.sampled_from("ab"),
)
@settings(deadline=None)
def test_git_ignores_the_same_paths_by_the_translated_rules(
    tmp_path_factory: pytest.TempPathFactory,
    top: list[str],
    inner: list[str],
    excluded: list[str],
    folder: str,
) -> None:
    root = tmp_path_factory.mktemp("rules")
    git(root, "init", "-q")
    for first in "abc":
        for second in "abc":
            (root / first / second).mkdir(parents=True)
            (root / first / second / "a").touch()
            (root / first / second / "b").touch()
    (root / ".gitignore").write_text("\n".join(top))
    (root / folder / ".gitignore").write_text("\n".join(inner))
    (root / ".git" / "info" / "exclude").write_text("\n".join(excluded))
    lines = [
        *below("\n".join(excluded).encode(), b""),
        *below("\n".join(top).encode(), b""),
    ]
    lines += below("\n".join(inner).encode(), folder.encode())
    (root / ".git" / "translated").write_bytes(b"".join(line + b"\n" for line in lines))

    expected = git(root, "ls-files", "--others", "--exclude-standard")
    assert (
        git(root, "ls-files", "--others", "--exclude-from=.git/translated") == expected
    )
