"""The commands of a shell line: words, positions, and what takes an exit code's place."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.shell_lines import Command, Lost, UnreadableError, read_line

WORDS: dict[str, list[str]] = {
    "": [],
    "A=1": [""],
    "pytest -q": ["pytest -q"],
    "A=1 B='x y' pytest": ["pytest"],
    "cd sub && pytest -k 'a or b'  # quick": ["cd sub", "pytest -k a or b"],
    "pytest > log 2>&1 < /dev/null | tee -a log": ["pytest", "tee -a log"],
    "pytest &> log; echo $?": ["pytest", "echo $?"],
    "echo \"a;b\" 'c&&d' e\\;f a#b {}": ["echo a;b c&&d e;f a#b {}"],
    "echo \"$(date; echo ')')\" `ls; pwd`": ["echo $(date; echo ')') `ls; pwd`"],
    "(cd x; { a && b; }) || c": ["cd x", "a", "b", "c"],
    "a \\\n  b\nc": ["a b", "c"],
    "gi\\\nt pu\\\nsh": ["git push"],
    "if test -f x; then a; else b; fi": ["test -f x", "a", "b"],
    "for f in a b; do pytest $f; done": ["pytest $f"],
    "while read x; do a; done < f": ["read x", "a"],
    "! { grep -q x f; }": ["grep -q x f"],
    "f() { a; }; f": ["a", "f"],
    "case $1 in\n x) a;;\n y)\n  b\nesac\nc": ["a", "b", "c"],
    "[ -f x ] && export A=1 B; unset C": ["[ -f x ]", "export A=1 B", "unset C"],
    "arr=(a b); echo ${arr[@]} ${X:-${Y:-z}} $((1 + 2))": [
        "",
        "echo ${arr[@]} ${X:-${Y:-z}} $((1 + 2))",
    ],
    "> log curl x 2>&1": ["curl x"],
    "make 2>&1 test -k | tee log": ["make test -k", "tee log"],
    "cat <<E | b && c\nx\nE\nd": ["cat", "b", "c", "d"],
    "a; cat <<'E F'; b\nit's $(x)\nE F\nc": ["a", "cat", "b", "c"],
    "cat <<A <<-B; ls\n1\nA\n\t2\n\tB\npwd": ["cat", "ls", "pwd"],
    "écho a\u00a0b 'ü $x' {\U00031860 && ö=1 > ß": [
        "écho a\u00a0b ü $x {\U00031860",
        "ö=1",
    ],
}


@pytest.mark.parametrize("line", WORDS)
def test_a_line_is_split_into_its_commands(line: str) -> None:
    assert [" ".join(command.words) for command in read_line(line).commands] == WORDS[
        line
    ]


@pytest.mark.parametrize(
    "line",
    [
        "pytest 'x",
        'echo "x',
        "(pytest",
        "pytest)",
        "a || ",
        "&& a",
        "a | | b",
        "a\0b",
        "if a; then b; fi x",
        "fi",
        "for x do a; done",
        "echo >",
        "case x in x) a",
        "a b() { c; }",
        "cat <<E\nx",
        # Valid, but not read.
        "function f { a; }",
        "[[ x =~ ^(a|b)$ ]]",
        "((a))",
        "echo $'a'",
        "echo ${ a; }",
        "echo ${X#'}'}",
        "a &> f b",
        'cat <<E "x\n"\nE',
    ],
)
def test_a_line_that_is_not_read_is_an_error(line: str) -> None:
    with pytest.raises(UnreadableError):
        read_line(line)


@pytest.mark.parametrize(
    ("line", "substitutes"),
    [
        ("echo $(a)", True),
        ('echo "x `a`"', True),
        ("diff <(a) b", True),
        ("echo $(a $(b $(c))) $(( (1 + 2) * 3 ))", True),
        ('"it\'s $(a)"', True),
        ("cat <<E\n$(a)\nE", True),
        ("cat <<E\nx\\\nE\nE", True),
        ("cat <<'E'\n$(a) `b`\nE", False),
        ("echo '$(a)' \\$\\(b\\) \"\\`\"", False),
        (
            'git commit -m "$(cat <<\'EOF\'\nit\'s `x`, and $(y)\n\nA "b"\nEOF\n)" && git log',
            False,
        ),
        ("git commit -m \"$(cat <<'EOF'\nx\nEOF\na\nEOF\n)\"", True),
    ],
)
def test_substitutions_are_noticed(line: str, substitutes: bool) -> None:
    assert read_line(line).substitutes is substitutes


LOST: dict[str, Lost | None] = {
    "pytest && ruff check": None,
    "pytest -q | sort | tee log": Lost("|", "tee log"),
    "pytest || true": Lost("||", "true"),
    "pytest && a || b": Lost("||", "b"),
    "pytest; ruff; echo ok": Lost(";", "echo ok"),
    "pytest\necho ok": Lost(";", "echo ok"),
    "pytest & wait": Lost("&"),
    "pytest > log 2>&1 || true": Lost("||", "true"),
    "(pytest && cd x) || :": Lost("||", ":"),
    "{ pytest; } | cat": Lost("|", "cat"),
    "pytest && a | b": None,
    "pytest && (a; b)": None,
    "if pytest; then b; fi; echo": None,
    "case x in x) pytest;; y) a;; esac": None,
    "for x in a; do pytest; done; echo": Lost(";", "echo"),
}


@pytest.mark.parametrize("line", LOST)
def test_what_takes_the_place_of_an_exit_code_is_known(line: str) -> None:
    assert read_line(line).commands[0].lost == LOST[line]


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("pytest", "last"),
        ("! pytest", "negated last"),
        ("! (a && ! pytest)", "last"),
        ("! a | pytest", "negated last"),
        ("a || pytest", "fallback last"),
        ("a || b && pytest", "last"),
        ("a || { b && pytest; }", "fallback last"),
        ("if a; then pytest; fi", "optional last"),
        ("a; for x in b; do pytest; done; b", "optional"),
        ("(pytest) && x", ""),
        ("f() { pytest; }; f", "optional"),
        ("case x in a) pytest;; esac", "optional last"),
    ],
)
def test_positions_are_known(line: str, flags: str) -> None:
    command = next(
        command for command in read_line(line).commands if command.words == ("pytest",)
    )
    names = ("negated", "fallback", "optional", "last")
    assert [name for name in names if getattr(command, name)] == flags.split()


@given(
    st.text(alphabet=" \t\n\\'\"`$(){}<>|&;!#=abif", max_size=60) | st.text(max_size=80)
)
def test_every_text_is_read_or_refused(line: str) -> None:
    with contextlib.suppress(UnreadableError):
        assert all(isinstance(command, Command) for command in read_line(line).commands)


@given(
    st.lists(
        st.text(
            alphabet=st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=1
        ),
        max_size=5,
    )
)
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    (command,) = read_line(shlex.join(["run", *words])).commands
    assert command.words == ("run", *words)


@pytest.mark.parametrize(
    "line",
    [
        "printf '<%s>' a'b'\"c d\"\\ e",
        "printf '<%s>' \"x\\\"y\\\\z\\q\" 'a\\b'",
        "printf '<%s>' a#b # c",
    ],
)
def test_words_are_those_of_sh(line: str) -> None:
    shown = subprocess.run(
        ["sh", "-c", line], capture_output=True, check=True, text=True
    ).stdout
    assert (
        "".join(f"<{word}>" for word in read_line(line).commands[0].words[2:]) == shown
    )


@pytest.mark.parametrize(
    "line",
    [
        "( " * 9_000,
        "a; " * 60_000,
        "a && " * 15_000,
        "$(" * 5_000,
        '"$(`' * 5_000,
        "<<A " * 2_000 + "\n" * 3_000,
    ],
)
def test_a_very_deep_or_long_line_is_refused_in_time(line: str) -> None:
    began = time.thread_time()
    with pytest.raises(UnreadableError):
        read_line(line)
    assert time.thread_time() - began < 2
