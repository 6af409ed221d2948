"""How a command line is read: words, positions, and what takes an exit code's place."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.validators.commandline import Command, Lost, read
from goalrunner.validators.words import Unreadable, tokens


def words(line: str) -> list[tuple[str, ...]]:
    return [command.words for command in read(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest -q", [("pytest", "-q")]),
        ("A=1 B='x y' pytest", [("pytest",)]),
        ("cd sub && pytest -k 'a or b'  # quick", [("cd", "sub"), ("pytest", "-k", "a or b")]),
        ("pytest > log 2>&1 < /dev/null | tee -a log", [("pytest",), ("tee", "-a", "log")]),
        ("pytest &> log; echo $?", [("pytest",), ("echo", "$?")]),
        (
            "echo \"a;b\" 'c&&d' e\\;f \"$(date; echo ')')\" `ls; pwd`",
            [("echo", "a;b", "c&&d", "e;f", "$(date; echo ')')", "`ls; pwd`")],
        ),
        ("(cd x; { a && b; }) || c", [("cd", "x"), ("a",), ("b",), ("c",)]),
        ("a \\\n  b\nc", [("a", "b"), ("c",)]),
        ("if test -f x; then pytest; else true; fi", [("test", "-f", "x"), ("pytest",), ("true",)]),
        ("for f in a b; do pytest $f; done", [("pytest", "$f")]),
        ("! grep -q x file", [("grep", "-q", "x", "file")]),
        ("echo { } a#b", [("echo", "{", "}", "a#b")]),
        ("A=1", [()]),
        ("", []),
    ],
)
def test_a_line_is_read_into_its_commands(line: str, expected: list[tuple[str, ...]]) -> None:
    assert words(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "pytest 'x",
        'echo "x',
        "(pytest",
        "pytest)",
        "a || ",
        "&& a",
        "cat <<E\nx\nE",
        "case x in x) a;; esac",
        "f() { a; }",
        "a | | b",
    ],
)
def test_what_cannot_be_read_holds_no_commands(line: str) -> None:
    assert read(line) == ()


def test_what_takes_the_place_of_an_exit_code_is_known() -> None:
    def lost(line: str) -> Lost | None:
        return read(line)[0].lost

    assert lost("pytest && ruff check") is None
    assert lost("pytest -q | tee log") == Lost("|", "pytest -q | tee log", "tee log")
    assert lost("pytest || true") == Lost("||", "pytest || true", "true")
    assert lost("pytest; ruff; echo ok") == Lost(";", "pytest; echo ok", "echo ok")
    assert lost("pytest\necho ok") == Lost(";", "pytest; echo ok", "echo ok")
    assert lost("pytest & wait") == Lost("&", "pytest &")
    assert lost("(cd x && pytest) || :") == Lost("||", "(cd x && pytest) || :", ":")
    assert lost("{ pytest; } | cat") == Lost("|", "{ pytest; } | cat", "cat")
    assert lost("pytest && a || b") == Lost("||", "pytest || b", "b")
    assert read("a || pytest")[1].lost is None


def test_conditions_and_negations_are_known() -> None:
    def flags(line: str, at: int = 0) -> tuple[bool, bool, bool, bool]:
        command = read(line)[at]
        return command.negated, command.fallback, command.optional, command.last

    assert flags("pytest") == (False, False, False, True)
    assert flags("! pytest") == (True, False, False, True)
    assert flags("! (a && ! pytest)", 1) == (False, False, False, True)
    assert flags("a || pytest", 1) == (False, True, False, True)
    assert flags("a || b && pytest", 2) == (False, False, False, True)
    assert flags("if a; then pytest; fi", 1) == (False, False, True, True)
    assert read("if a; then pytest; fi")[1].lost is None
    assert flags("pytest -k if && x") == (False, False, False, False)
    assert flags("pytest | tee log") == (False, False, False, True)


@given(st.text(alphabet=" \t\n\\'\"`$(){}<>|&;!#=abif", max_size=60))
def test_every_text_is_read_or_refused(line: str) -> None:
    for command in read(line):
        assert isinstance(command, Command)
        assert command.words or command.assignments


@given(
    st.lists(
        st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=1), min_size=1, max_size=5
    )
)
def test_quoted_words_come_back_as_they_were(given_words: list[str]) -> None:
    line = shlex.join(["run", *given_words])
    assert words(line) == [("run", *given_words)]


@pytest.mark.parametrize(
    "line", ["printf '<%s>' a'b'\"c d\"\\ e", "printf '<%s>' \"x\\\"y\\\\z\\q\" 'a\\b'", "printf '<%s>' a#b # c"]
)
def test_words_are_those_of_sh(line: str) -> None:
    shown = subprocess.run(["sh", "-c", line], capture_output=True, check=True, text=True).stdout
    assert "".join(f"<{word}>" for word in words(line)[0][2:]) == shown


def test_a_very_deep_line_is_refused() -> None:
    assert read("(" * 200 + "a" + ")" * 200) == ()
    assert read("a; " * 10_000) == ()
    with pytest.raises(Unreadable):
        list(tokens("$(" * 500))
